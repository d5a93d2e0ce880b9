/* data.h - the command `veche data`. */
#ifndef VECHE_CLI_DATA_H
#define VECHE_CLI_DATA_H

/* argv[0] is "data". Returns the exit code: 0, 1 after a fault (printed), 2 after wrong usage. */
int cli_data(int argc, char **argv);

#endif
