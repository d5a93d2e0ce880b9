#!/bin/bash
# The engine `dnnl` as on processors with narrower vectors: other orders of channels, other kernels, the same laws.
build=$1
for name in dnnl dnnl_bits; do
    suite=$build/tests/engine.$name
    [ -x "$suite" ] || exit 77
    if ! log=$(DNNL_MAX_CPU_ISA=AVX2 "$suite" 2>&1); then
        echo "engine.$name fails with DNNL_MAX_CPU_ISA=AVX2:"
        echo "$log"
        exit 1
    fi
done
