#!/bin/bash
# The engine `dnnl` as on processors with narrower vectors: other orders of channels, other kernels, the same laws.
build=$1
suite=$build/tests/engine.dnnl_bits
[ -x "$suite" ] || exit 77
if ! log=$(DNNL_MAX_CPU_ISA=AVX2 "$suite" 2>&1); then
    echo "engine.dnnl_bits fails with DNNL_MAX_CPU_ISA=AVX2:"
    echo "$log"
    exit 1
fi
