/* IDX files, plain or packed: one input serves as pictures and as labels. */
#include "data/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static const uint8_t one_label[] = {0, 0, 8, 1, 0, 0, 0, 1, 3};
    const struct source other = {"labels", one_label, sizeof one_label};
    struct source s = {0};
    struct intake p = {0};
    fault f = source_unpack("fuzz", bytes, n, 1 << 20, &s);
    if (!f) {
        fault_drop(idx_read(&s, &other, 10, &p));
        fault_drop(idx_read(&s, &s, 10, &p));
        struct source split = {"tail", s.bytes + s.n / 2, s.n - s.n / 2};
        s.n /= 2; /* pictures and labels end to end */
        fault_drop(idx_read(&s, &split, 10, &p));
    }
    fault_drop(f);
    intake_close(&p);
    source_close(&s);
    return 0;
}
