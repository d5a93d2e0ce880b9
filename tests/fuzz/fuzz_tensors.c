/* Arbitrary bytes as a tensor file: refused with a checkpoint's fault or read, and what was read can be read.
 */
#include <stdint.h>
#include <stdlib.h>

#include "record/tensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static float sum_of(const struct tensors *t)
{
    float sum = 0;
    for (size_t i = 0; i < t->n; i++) {
        size_t size = 1;
        for (size_t d = 0; d < t->at[i].n_dims; d++)
            size *= t->at[i].dims[d];
        for (size_t j = 0; j < size; j++)
            sum += t->at[i].doubles ? (float)t->at[i].doubles[j] : t->at[i].floats[j];
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct tensors t;
    fault f = tensors_parse(bytes, n, "fuzz", &t);
    if (f) {
        if (fault_kind_of(f) != FAULT_CHECKPOINT)
            abort();
        fault_drop(f);
        return 0;
    }
    volatile float sink = sum_of(&t); /* every float is touched where the sanitizer can see it */
    (void)sink;
    tensors_release(&t);
    return 0;
}
