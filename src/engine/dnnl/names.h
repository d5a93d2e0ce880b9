/* names.h - the files that make and run programs are hot (base/isa.h): compiled once for each instruction
 * set. The names that they share among themselves get its name as an ending, so that each set of files calls
 * its own. The linker finds what is missing here. */
#ifndef VECHE_ENGINE_DNNL_NAMES_H
#define VECHE_ENGINE_DNNL_NAMES_H

#include "base/isa.h"

#ifdef ISA
#define add_chunk             FOR_ISA(add_chunk)
#define add_maker             FOR_ISA(add_maker)
#define add_two               FOR_ISA(add_two)
#define avgpool_maker         FOR_ISA(avgpool_maker)
#define batchnorm_maker       FOR_ISA(batchnorm_maker)
#define buffer_add            FOR_ISA(buffer_add)
#define buffer_keep           FOR_ISA(buffer_keep)
#define buffer_prepare        FOR_ISA(buffer_prepare)
#define buffer_use            FOR_ISA(buffer_use)
#define buffer_use_next       FOR_ISA(buffer_use_next)
#define buffer_use_whole      FOR_ISA(buffer_use_whole)
#define concat_maker          FOR_ISA(concat_maker)
#define conv_is_own           FOR_ISA(conv_is_own)
#define conv_maker            FOR_ISA(conv_maker)
#define conv_own_maker        FOR_ISA(conv_own_maker)
#define conv_shape_of         FOR_ISA(conv_shape_of)
#define conv_load_chunk       FOR_ISA(conv_load_chunk)
#define conv_sums_chunk       FOR_ISA(conv_sums_chunk)
#define dropout_maker         FOR_ISA(dropout_maker)
#define flat_reserve          FOR_ISA(flat_reserve)
#define globalpool_maker      FOR_ISA(globalpool_maker)
#define job_add               FOR_ISA(job_add)
#define layout_is_flat        FOR_ISA(layout_is_flat)
#define layout_is_plain       FOR_ISA(layout_is_plain)
#define layout_of             FOR_ISA(layout_of)
#define layout_pack           FOR_ISA(layout_pack)
#define layout_unpack         FOR_ISA(layout_unpack)
#define layout_unpack_as      FOR_ISA(layout_unpack_as)
#define linear_maker          FOR_ISA(linear_maker)
#define loss_maker            FOR_ISA(loss_maker)
#define maxpool_maker         FOR_ISA(maxpool_maker)
#define norm_apply_add_chunk  FOR_ISA(norm_apply_add_chunk)
#define norm_back_add_chunk   FOR_ISA(norm_back_add_chunk)
#define norm_clear_sums       FOR_ISA(norm_clear_sums)
#define norm_finish_back      FOR_ISA(norm_finish_back)
#define norm_vectors          FOR_ISA(norm_vectors)
#define phase_end             FOR_ISA(phase_end)
#define pointwise_maker       FOR_ISA(pointwise_maker)
#define program_arrange       FOR_ISA(program_arrange)
#define program_fold          FOR_ISA(program_fold)
#define program_place_buffers FOR_ISA(program_place_buffers)
#define receive_maker         FOR_ISA(receive_maker)
#define relu_back_chunk       FOR_ISA(relu_back_chunk)
#define reshape_maker         FOR_ISA(reshape_maker)
#define send_maker            FOR_ISA(send_maker)
#define shortcut_maker        FOR_ISA(shortcut_maker)
#endif

#endif
