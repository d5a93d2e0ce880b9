/* lapack.h - LAPACK, opened when a graph's eigenvalues are asked for.
 *
 * It brings along whatever BLAS the system has, and some take hundreds of megabytes of address space and a thread for each core
 * before a program begins. Most runs need none of it.
 */
#ifndef VECHE_TOPOLOGY_LAPACK_H
#define VECHE_TOPOLOGY_LAPACK_H

#include <lapacke.h>

#include "base/fault.h"

struct lapack {
    __typeof__(LAPACKE_dsyevd) *dsyevd;
    __typeof__(LAPACKE_dpotrf) *dpotrf;
    __typeof__(LAPACKE_dpotri) *dpotri;
    __typeof__(LAPACKE_dposv) *dposv;
};

/* May be called as often as one likes, by any thread. */
fault lapack_open(struct lapack *out);

#endif
