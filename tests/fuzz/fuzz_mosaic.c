/* PNG mosaics of two rows and JSON lists of four labels: every input is tried as both. */
#include "data/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct source s = {"fuzz", bytes, n};
    struct intake p = {0};
    uint16_t labels[4] = {0};
    fault_drop(mosaic_read(&s, 2, labels, &p));
    fault_drop(mosaic_labels(&s, 4, 10, labels));
    for (size_t i = 0; i < 4; i++)
        if (labels[i] >= 10)
            __builtin_trap();
    intake_close(&p);
    return 0;
}
