#include "topology/threads.h"

#ifdef _OPENMP
#include <omp.h>

int threads_alone(void)
{
    int before = omp_get_max_threads();
    omp_set_num_threads(1);
    return before;
}

void threads_back(int before)
{
    omp_set_num_threads(before);
}

#else

int threads_alone(void)
{
    return 1;
}

void threads_back(int before)
{
    (void)before;
}

#endif
