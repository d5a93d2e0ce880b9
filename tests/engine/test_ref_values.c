/* Every op of the reference engine gives what PyTorch gives, forward and backward (tools/ref_values.py). */
#include "engine/ref/ref.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "engine/ref_values.h"

enum { MOST = 256 };

/* All an op may touch, with the numbers that the script gives it. */
struct bench {
    struct ref_call call;
    float x[2][MOST], dx[2][MOST], y[MOST], dy[MOST], weight[MOST], bias[MOST], dweight[MOST], dbias[MOST];
    float mean[MOST], var[MOST];
};

static const uint16_t labels[] = {2, 0, 1};

static void numbers(float *x, int k)
{
    for (int i = 0; i < MOST; i++)
        x[i] = (float)(2 * sin(1.3 * i + 0.7 * k));
}

static struct bench *bench_new(const struct op *op, size_t batch, struct shape in, struct shape out)
{
    struct bench *b = calloc(1, sizeof *b);
    assert_non_null(b);
    numbers(b->x[0], 0);
    numbers(b->x[1], 1);
    numbers(b->weight, 1);
    numbers(b->bias, 2);
    numbers(b->mean, 3);
    numbers(b->var, 4);
    numbers(b->dy, 9);
    for (int i = 0; i < MOST; i++)
        b->var[i] = fabsf(b->var[i]);
    b->call =
        (struct ref_call){.op = op, .batch = batch, .of = batch, .learning = true, .in = in, .out = out, .labels = labels};
    b->call.x[0] = b->x[0];
    b->call.x[1] = b->x[1];
    b->call.dx[0] = b->dx[0];
    b->call.dx[1] = b->dx[1];
    b->call.y = b->y;
    b->call.dy = b->dy;
    b->call.weight = b->weight;
    b->call.bias = b->bias;
    b->call.dweight = b->dweight;
    b->call.dbias = b->dbias;
    b->call.mean = b->mean;
    b->call.var = b->var;
    return b;
}

/* Compares the next n of the expected values and steps over them. */
static void expect(const float *x, size_t n, const double **values)
{
    for (size_t i = 0; i < n; i++) {
        double v = (*values)[i];
        if (!(fabs(x[i] - v) <= 1e-6 + 2e-6 * fabs(v)))
            fail_msg("number %zu is %.9g and should be %.9g", i, x[i], v);
    }
    *values += n;
}

#define COUNT(values) (sizeof(values) / sizeof *(values))

/* Numbers of input k of the op; most have one input. */
static size_t n_in(const struct op *op, size_t batch, struct shape in, struct shape out, int k)
{
    if (k == 0 || op->kind == OP_ADD)
        return batch * shape_size(in);
    return op->kind == OP_CONCAT ? batch * (shape_size(out) - shape_size(in)) : 0;
}

/* Runs the op both ways and compares y, dx of each input, dweight and dbias. */
static void check(const struct ref_row *row, const struct op *op, size_t batch, struct shape in,
                  struct shape out, size_t n_weight, size_t n_bias, const double *values, size_t n_values)
{
    struct bench *b = bench_new(op, batch, in, out);
    const double *at = values;
    row->forward(&b->call);
    expect(b->y, batch * shape_size(out), &at);
    row->backward(&b->call);
    for (int k = 0; k < 2; k++)
        expect(b->dx[k], n_in(op, batch, in, out, k), &at);
    expect(b->dweight, n_weight, &at);
    expect(b->dbias, n_bias, &at);
    assert_int_equal(at - values, n_values);
    free(b);
}

static void convolution(void **state)
{
    (void)state;
    struct op op = {.kind = OP_CONV, .kernel = 3, .stride = 1, .groups = 1};
    check(&ref_conv, &op, 2, (struct shape){2, 5, 4}, (struct shape){3, 3, 2}, 54, 3, conv_values,
          COUNT(conv_values));
    op.stride = 2;
    op.pad = 1;
    check(&ref_conv, &op, 2, (struct shape){2, 5, 4}, (struct shape){3, 3, 2}, 54, 3, conv_strided_values,
          COUNT(conv_strided_values));
}

static void convolution_of_groups(void **state)
{
    (void)state;
    struct op op = {.kind = OP_CONV, .kernel = 3, .stride = 2, .pad = 1, .groups = 2};
    check(&ref_conv, &op, 2, (struct shape){4, 4, 3}, (struct shape){6, 2, 2}, 108, 6, groups_values,
          COUNT(groups_values));
    op.groups = 3;
    check(&ref_conv, &op, 2, (struct shape){3, 4, 3}, (struct shape){6, 2, 2}, 54, 6, depthwise_values,
          COUNT(depthwise_values));
}

static void concat(void **state)
{
    (void)state;
    check(&ref_concat, &(struct op){.kind = OP_CONCAT}, 2, (struct shape){2, 2, 3}, (struct shape){5, 2, 3},
          0, 0, concat_values, COUNT(concat_values));
}

static void linear(void **state)
{
    (void)state;
    check(&ref_linear, &(struct op){.kind = OP_LINEAR}, 3, (struct shape){4, 1, 1}, (struct shape){2, 1, 1},
          8, 2, linear_values, COUNT(linear_values));
}

static void batchnorm_learning_and_in_an_exam(void **state)
{
    (void)state;
    struct op op = {.kind = OP_BATCHNORM, .eps = 1e-5, .momentum = 0.1};
    struct shape s = {2, 2, 3};
    check(&ref_batchnorm, &op, 3, s, s, 2, 2, batchnorm_values, COUNT(batchnorm_values));
    struct bench *b = bench_new(&op, 3, s, s);
    const double *running = running_values, *exam = batchnorm_exam_values;
    ref_batchnorm.forward(&b->call);
    expect(b->mean, 2, &running);
    expect(b->var, 2, &running);
    free(b);
    b = bench_new(&op, 3, s, s);
    b->call.learning = false;
    ref_batchnorm.forward(&b->call);
    expect(b->y, 36, &exam);
    float mean[MOST];
    numbers(mean, 3);
    assert_memory_equal(b->mean, mean, sizeof mean); /* an exam moves nothing */
    free(b);
}

static void numbers_one_by_one(void **state)
{
    (void)state;
    struct shape three = {3, 1, 1}, five = {5, 1, 1};
    check(&ref_add, &(struct op){.kind = OP_ADD, .relu = true}, 2, three, three, 0, 0, add_values,
          COUNT(add_values));
    check(&ref_relu, &(struct op){.kind = OP_RELU}, 2, five, five, 0, 0, relu_values, COUNT(relu_values));
    check(&ref_tanh, &(struct op){.kind = OP_TANH}, 2, five, five, 0, 0, tanh_values, COUNT(tanh_values));
    check(&ref_sigmoid, &(struct op){.kind = OP_SIGMOID}, 2, five, five, 0, 0, sigmoid_values,
          COUNT(sigmoid_values));
}

static void pools(void **state)
{
    (void)state;
    struct shape in = {2, 5, 4}, out = {2, 3, 2};
    struct op op = {.kind = OP_MAXPOOL, .kernel = 3, .stride = 2, .pad = 1};
    check(&ref_maxpool, &op, 2, in, out, 0, 0, maxpool_values, COUNT(maxpool_values));
    op.kind = OP_AVGPOOL;
    check(&ref_avgpool, &op, 2, in, out, 0, 0, avgpool_values, COUNT(avgpool_values));
    check(&ref_globalpool, &(struct op){.kind = OP_GLOBALPOOL}, 2, (struct shape){2, 3, 4},
          (struct shape){2, 1, 1}, 0, 0, globalpool_values, COUNT(globalpool_values));
}

static void shortcut_as_in_option_a(void **state)
{
    (void)state;
    check(&ref_shortcut, &(struct op){.kind = OP_SHORTCUT, .stride = 2}, 2, (struct shape){2, 5, 4},
          (struct shape){5, 3, 2}, 0, 0, shortcut_values, COUNT(shortcut_values));
}

static void the_first_of_equal_pixels_takes_the_gradient_of_a_max_pool(void **state)
{
    (void)state;
    struct op op = {.kind = OP_MAXPOOL, .kernel = 2, .stride = 2};
    struct bench *b = bench_new(&op, 1, (struct shape){1, 2, 2}, (struct shape){1, 1, 1});
    for (int i = 0; i < 4; i++)
        b->x[0][i] = i == 0 ? -1 : 3;
    ref_maxpool.forward(&b->call);
    ref_maxpool.backward(&b->call);
    assert_true(b->y[0] == 3);
    assert_true(b->dx[0][0] == 0 && b->dx[0][1] == b->dy[0] && b->dx[0][2] == 0 && b->dx[0][3] == 0);
    free(b);
}

static void check_loss(const struct ref_row *row, enum op_kind kind, const double *values)
{
    struct op op = {.kind = kind};
    struct bench *b = bench_new(&op, 3, (struct shape){4, 1, 1}, (struct shape){0});
    row->forward(&b->call);
    row->backward(&b->call);
    assert_true(fabs(b->call.loss - values[0]) < 1e-7);
    values++;
    expect(b->dx[0], 12, &values);
    free(b);
}

static void losses(void **state)
{
    (void)state;
    check_loss(&ref_cross_entropy, OP_CROSS_ENTROPY, cross_entropy_values);
    check_loss(&ref_mse, OP_MSE, mse_values);
    check_loss(&ref_hinge, OP_HINGE, hinge_values);
    check_loss(&ref_logistic, OP_LOGISTIC, logistic_values);
}

static void losses_of_huge_outputs_stay_finite(void **state)
{
    (void)state;
    static const struct ref_row *const rows[] = {&ref_cross_entropy, &ref_hinge, &ref_logistic};
    for (int k = 0; k < 3; k++)
        for (int sign = -1; sign < 2; sign += 2) {
            struct op op = {.kind = OP_CROSS_ENTROPY};
            struct bench *b = bench_new(&op, 3, (struct shape){4, 1, 1}, (struct shape){0});
            for (int i = 0; i < 12; i++)
                b->x[0][i] *= (float)sign * 1e30f;
            rows[k]->forward(&b->call);
            rows[k]->backward(&b->call);
            assert_true(isfinite(b->call.loss));
            for (int i = 0; i < 12; i++)
                assert_true(isfinite(b->dx[0][i]));
            free(b);
        }
}

static void hits_count_the_first_largest_output(void **state)
{
    (void)state;
    struct op op = {.kind = OP_MSE};
    struct bench *b = bench_new(&op, 3, (struct shape){3, 1, 1}, (struct shape){0});
    static const float x[9] = {1, 2, 2, /* 1 is first; the label is 2: no hit */
                               5, 5, 5, /* 0: a hit                          */
                               0, 9, 1 /* 1: a hit                          */};
    b->call.x[0] = x;
    ref_mse.forward(&b->call);
    assert_int_equal(b->call.hits, 2);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolution),
        cmocka_unit_test(convolution_of_groups),
        cmocka_unit_test(concat),
        cmocka_unit_test(linear),
        cmocka_unit_test(batchnorm_learning_and_in_an_exam),
        cmocka_unit_test(numbers_one_by_one),
        cmocka_unit_test(pools),
        cmocka_unit_test(shortcut_as_in_option_a),
        cmocka_unit_test(the_first_of_equal_pixels_takes_the_gradient_of_a_max_pool),
        cmocka_unit_test(losses),
        cmocka_unit_test(losses_of_huge_outputs_stay_finite),
        cmocka_unit_test(hits_count_the_first_largest_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
