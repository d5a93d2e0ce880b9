/* reading.h - experiments of the toy registry that are read, or refused with a sentence; their file is
 * "folder/e.yaml". */
#ifndef VECHE_TESTS_READING_H
#define VECHE_TESTS_READING_H

#include "experiment/experiment.h"
#include "support/registry.h"

/* The shortest good experiment, and the same without its section `data`. */
#define REST                                                                                                 \
    "model: tower\n"                                                                                         \
    "optim: {kind: sgd, lr: 0.1}\n"                                                                          \
    "train: {epochs: 2}\n"
#define LEAST "data: {set: dots, batch: 25}\n" REST

struct experiment *reads(const char *text, const char *override); /* NULL: none */
void refuses(const char *text, const char *sentence);

#endif
