/* train.c - a C program that trains a network with libveche, watches it, stops it and goes on.
 *
 *   cc examples/train.c -Iinclude -Lbuild -lveche -o train && LD_LIBRARY_PATH=build ./train
 */
#include <stdio.h>
#include <stdlib.h>
#include <veche.h>

static const char experiment[] = "name: example\n"
                                 "data:  { set: spirals, batch: 32 }\n"
                                 "model: mlp:64-64\n"
                                 "optim: { kind: adam, lr: 0.01 }\n"
                                 "train: { epochs: 20, evaluate_every: 5 epochs }\n";

/* Prints every evaluation, and asks for a stop at the first one. */
struct viewer {
    veche_run *run;
    int evaluations;
};

static void watch(void *ctx, const veche_event *event)
{
    struct viewer *v = ctx;
    if (event->kind != VECHE_EVALUATION)
        return;
    printf("epoch %5.1f  test accuracy %6.2f%%\n", event->epoch, event->accuracy);
    if (v->evaluations++ == 0)
        veche_stop(v->run);
}

static void expect(veche_fault *f)
{
    if (!f)
        return;
    fprintf(stderr, "%s\n", veche_fault_text(f));
    veche_fault_free(f);
    exit(1);
}

/* The largest absolute weight, and which tensor it is in. */
static void show_largest(veche_run *r)
{
    float *floats = malloc(veche_parameter_size(r) * sizeof *floats);
    if (!floats)
        exit(1);
    expect(veche_read_parameters(r, 0, floats));
    for (size_t i = 0; i < veche_parameter_count(r); i++) {
        veche_parameter p = veche_parameter_at(r, i);
        float largest = 0;
        for (size_t j = 0; j < p.size; j++) {
            float x = floats[p.offset + j];
            largest = x > largest ? x : -x > largest ? -x : largest;
        }
        printf("%-12s %6zu numbers, largest %.3f\n", p.name, p.size, largest);
    }
    free(floats);
}

int main(int argc, char **argv)
{
    veche_experiment *e;
    struct viewer viewer = {0};
    veche_options options = {.folder = argc > 1 ? argv[1] : "runs", .watch = watch, .ctx = &viewer};
    expect(veche_parse(experiment, "example", &e));
    expect(veche_override(e, "train.seed=7"));
    expect(veche_start(e, &options, &viewer.run));
    veche_experiment_free(e);

    veche_fault *f = veche_go(viewer.run);
    if (!veche_fault_is_stop(f)) {
        expect(f);
        return 1;
    }
    printf("%s\n", veche_fault_text(f));
    veche_fault_free(f);

    char folder[1024];
    snprintf(folder, sizeof folder, "%s", veche_run_folder(viewer.run));
    veche_close(viewer.run);
    expect(veche_resume(folder, &options, &viewer.run));
    expect(veche_go(viewer.run));
    show_largest(viewer.run);

    char *json;
    expect(veche_summary(viewer.run, &json));
    puts(json);
    free(json);
    veche_close(viewer.run);
    return 0;
}
