/* kernel_list.h - the names of all device code: X(file) for every .cu file, X(file, kernel) for every kernel. */
#ifndef VECHE_ENGINE_CUDA_KERNEL_LIST_H
#define VECHE_ENGINE_CUDA_KERNEL_LIST_H

#define CUDA_MODULES(X)                                                                                      \
    X(input)                                                                                                 \
    X(values)                                                                                                \
    X(pools)                                                                                                 \
    X(losses)                                                                                                \
    X(norm)                                                                                                  \
    X(weights)                                                                                               \
    X(patch)                                                                                                 \
    X(patch_weight)                                                                                          \
    X(groups)                                                                                                \
    X(linear)                                                                                                \
    X(rows)                                                                                                  \
    X(fused)                                                                                                 \
    X(conv3_forward)                                                                                         \
    X(conv3_input)                                                                                           \
    X(conv3_weight)                                                                                          \
    X(peak)

#define CUDA_KERNELS(X)                                                                                      \
    X(input, gather)                                                                                         \
    X(input, gather_filled)                                                                                  \
    X(values, add_forward)                                                                                   \
    X(values, add_backward)                                                                                  \
    X(values, concat_forward)                                                                                \
    X(values, concat_backward)                                                                               \
    X(values, relu_forward)                                                                                  \
    X(values, relu_backward)                                                                                 \
    X(values, tanh_forward)                                                                                  \
    X(values, tanh_backward)                                                                                 \
    X(values, sigmoid_forward)                                                                               \
    X(values, sigmoid_backward)                                                                              \
    X(values, dropout_forward)                                                                               \
    X(values, dropout_backward)                                                                              \
    X(values, reshape_forward)                                                                               \
    X(values, reshape_backward)                                                                              \
    X(values, send_forward)                                                                                  \
    X(values, send_backward)                                                                                 \
    X(values, receive_forward)                                                                               \
    X(values, receive_backward)                                                                              \
    X(pools, maxpool_forward)                                                                                \
    X(pools, maxpool_backward)                                                                               \
    X(pools, avgpool_forward)                                                                                \
    X(pools, avgpool_backward)                                                                               \
    X(pools, globalpool_forward)                                                                             \
    X(pools, globalpool_backward)                                                                            \
    X(pools, shortcut_forward)                                                                               \
    X(pools, shortcut_backward)                                                                              \
    X(losses, cross_entropy_forward)                                                                         \
    X(losses, cross_entropy_backward)                                                                        \
    X(losses, mse_forward)                                                                                   \
    X(losses, mse_backward)                                                                                  \
    X(losses, hinge_forward)                                                                                 \
    X(losses, hinge_backward)                                                                                \
    X(losses, logistic_forward)                                                                              \
    X(losses, logistic_backward)                                                                             \
    X(norm, norm_sums)                                                                                       \
    X(norm, norm_finish)                                                                                     \
    X(norm, norm_forward)                                                                                    \
    X(norm, norm_back_sums)                                                                                  \
    X(norm, norm_back_finish)                                                                                \
    X(norm, norm_backward)                                                                                   \
    X(weights, conv_forward_fp32_16)                                                                         \
    X(weights, conv_forward_fp32_32)                                                                         \
    X(weights, conv_forward_fp32_64)                                                                         \
    X(weights, conv_forward_bf16_16)                                                                         \
    X(weights, conv_forward_bf16_32)                                                                         \
    X(weights, conv_forward_bf16_64)                                                                         \
    X(weights, conv_back_input_fp32_16)                                                                      \
    X(weights, conv_back_input_fp32_32)                                                                      \
    X(weights, conv_back_input_fp32_64)                                                                      \
    X(weights, conv_back_input_bf16_16)                                                                      \
    X(weights, conv_back_input_bf16_32)                                                                      \
    X(weights, conv_back_input_bf16_64)                                                                      \
    X(weights, conv_back_weight_fp32_16)                                                                     \
    X(weights, conv_back_weight_fp32_32)                                                                     \
    X(weights, conv_back_weight_fp32_64)                                                                     \
    X(weights, conv_back_weight_bf16_16)                                                                     \
    X(weights, conv_back_weight_bf16_32)                                                                     \
    X(weights, conv_back_weight_bf16_64)                                                                     \
    X(weights, conv_back_quarters_fp32_64)                                                                   \
    X(weights, conv_back_quarters_bf16_64)                                                                   \
    X(weights, linear_forward_fp32_64)                                                                       \
    X(weights, linear_forward_bf16_64)                                                                       \
    X(weights, linear_back_input_fp32_64)                                                                    \
    X(weights, linear_back_input_bf16_64)                                                                    \
    X(weights, linear_back_weight_fp32_64)                                                                   \
    X(weights, linear_back_weight_bf16_64)                                                                   \
    X(patch, patch_forward_fp32_16)                                                                          \
    X(patch, patch_forward_fp32_32)                                                                          \
    X(patch, patch_forward_fp32_64)                                                                          \
    X(patch, patch_forward_bf16_16)                                                                          \
    X(patch, patch_forward_bf16_32)                                                                          \
    X(patch, patch_forward_bf16_64)                                                                          \
    X(patch, patch_back_input_fp32_16)                                                                       \
    X(patch, patch_back_input_fp32_32)                                                                       \
    X(patch, patch_back_input_fp32_64)                                                                       \
    X(patch, patch_back_input_bf16_16)                                                                       \
    X(patch, patch_back_input_bf16_32)                                                                       \
    X(patch, patch_back_input_bf16_64)                                                                       \
    X(patch, patch_weights_fp32)                                                                             \
    X(patch, patch_weights_bf16)                                                                             \
    X(patch, patch_weights_turned_fp32)                                                                      \
    X(patch, patch_weights_turned_bf16)                                                                      \
    X(patch_weight, patch_back_weight_fp32_16)                                                               \
    X(patch_weight, patch_back_weight_fp32_32)                                                               \
    X(patch_weight, patch_back_weight_bf16_16)                                                               \
    X(patch_weight, patch_back_weight_bf16_32)                                                               \
    X(groups, groups_forward)                                                                                \
    X(groups, groups_back_input)                                                                             \
    X(groups, groups_back_weight)                                                                            \
    X(linear, linear_few_forward)                                                                            \
    X(linear, linear_few_back_input)                                                                         \
    X(linear, linear_few_back_weight)                                                                        \
    X(weights, add_outputs)                                                                                  \
    X(weights, add_stretches)                                                                                \
    X(weights, bias_gradient)                                                                                \
    X(rows, step_sgd_plain)                                                                                  \
    X(rows, step_sgd_momentum)                                                                               \
    X(rows, step_sgd_nesterov)                                                                               \
    X(rows, step_adagrad)                                                                                    \
    X(rows, step_rmsprop_plain)                                                                              \
    X(rows, step_rmsprop_momentum)                                                                           \
    X(rows, step_adam)                                                                                       \
    X(rows, blend_few_rows)                                                                                  \
    X(rows, blend_rows)                                                                                      \
    X(rows, fill_floats)                                                                                     \
    X(peak, peak_fp32)                                                                                       \
    X(peak, peak_bf16)                                                                                       \
    X(fused, prepare_weights)                                                                                \
    X(fused, sum_stretches)                                                                                  \
    X(fused, fused_add)                                                                                      \
    X(fused, fused_globalpool_forward)                                                                       \
    X(fused, fused_globalpool_backward)                                                                      \
    X(fused, fused_maxpool_forward)                                                                          \
    X(fused, fused_maxpool_backward)                                                                         \
    X(fused, exam_norm)                                                                                      \
    X(conv3_forward, conv3_forward_16_16_32_1_1)                                                             \
    X(conv3_forward, conv3_forward_16_32_32_2_1)                                                             \
    X(conv3_forward, conv3_forward_32_32_16_1_1)                                                             \
    X(conv3_forward, conv3_forward_32_64_16_2_1)                                                             \
    X(conv3_forward, conv3_forward_64_64_8_1_1)                                                              \
    X(conv3_forward, conv3_forward_64_64_8_1_1_small)                                                        \
    X(conv3_forward, conv3_forward_16_32_28_1_1)                                                             \
    X(conv3_forward, conv3_forward_32_64_14_1_0)                                                             \
    X(conv3_input, conv3_input_16_16_32_1_1)                                                                 \
    X(conv3_input, conv3_input_16_32_32_2_1)                                                                 \
    X(conv3_input, conv3_input_32_32_16_1_1)                                                                 \
    X(conv3_input, conv3_input_32_64_16_2_1)                                                                 \
    X(conv3_input, conv3_input_64_64_8_1_1)                                                                  \
    X(conv3_input, conv3_input_64_64_8_1_1_small)                                                            \
    X(conv3_input, conv3_input_32_64_14_1_0)                                                                 \
    X(conv3_weight, conv3_weight_16_16_32_1_1)                                                               \
    X(conv3_weight, conv3_weight_16_32_32_2_1)                                                               \
    X(conv3_weight, conv3_weight_32_32_16_1_1)                                                               \
    X(conv3_weight, conv3_weight_32_64_16_2_1)                                                               \
    X(conv3_weight, conv3_weight_64_64_8_1_1)                                                                \
    X(conv3_weight, conv3_weight_64_64_8_1_1_small)                                                          \
    X(conv3_weight, conv3_weight_16_32_28_1_1)                                                               \
    X(conv3_weight, conv3_weight_32_64_14_1_0)

#endif
