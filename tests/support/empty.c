typedef int nothing_here; /* keeps the library from being empty */
