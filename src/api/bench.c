#include "base/fault.h"
#include "veche.h"
veche_fault *veche_bench_engine(const char *const *settings, size_t n, char **json)
{
    (void)settings, (void)n, (void)json;
    return FAIL(FAULT_USAGE, "soon");
}
