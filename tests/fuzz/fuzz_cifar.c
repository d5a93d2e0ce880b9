/* CIFAR's records in both layouts, plain or packed; an xz or gzip file that breaks goes through here too. */
#include "data/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct source s = {0};
    fault f = source_unpack("fuzz", bytes, n, 1 << 20, &s);
    for (int coarse = 0; !f && coarse <= 1; coarse++) {
        struct intake p = {0};
        fault_drop(cifar_read(&s, coarse ? 100 : 10, coarse, &p));
        for (size_t i = 0; i < p.n; i++)
            if (p.labels[i] >= 100)
                __builtin_trap();
        intake_close(&p);
    }
    fault_drop(f);
    source_close(&s);
    return 0;
}
