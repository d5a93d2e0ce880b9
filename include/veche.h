/* veche.h - the library: load, check, change and run an experiment, watch it, stop it, read what was learnt.
 *
 *   veche_load -> veche_override ... -> veche_start -> veche_go -> veche_summary -> veche_close
 *
 * A function that can fail returns NULL when all went well, else a fault: an object with one sentence for
 * people. The caller frees it. Outputs are written only on success. Texts given out in `char **` are freed by
 * the caller with free(). Different experiments and runs may be used from different threads at once; one and
 * the same may not, except for veche_stop. The library never prints, never exits and installs no signal
 * handlers.
 */
#ifndef VECHE_H
#define VECHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define VECHE_API __attribute__((visibility("default")))
#else
#define VECHE_API
#endif

typedef const struct fault_body veche_fault;
typedef struct veche_experiment veche_experiment;
typedef struct veche_run veche_run;

VECHE_API const char *veche_version(void);

/* ---- faults ---- */

VECHE_API const char *veche_fault_text(veche_fault *f);
VECHE_API bool veche_fault_is_stop(veche_fault *f); /* the run was stopped on request, and saved */
VECHE_API bool veche_fault_is_told(veche_fault *f); /* another process of the run says what went wrong */
VECHE_API bool veche_fault_is_given_up(veche_fault *f); /* the other processes go on without this one, which had stalled */
VECHE_API void veche_fault_free(veche_fault *f);

/* ---- experiments ---- */

VECHE_API veche_fault *veche_load(const char *path, veche_experiment **out);
/* The same with "optim.lr=0.1" and others in place of what the file says; what comes of it all is checked, and that none undoes
 * another ("optim=adam" after it). */
VECHE_API veche_fault *veche_load_with(const char *path, const char *const *assignments, size_t n,
                                       veche_experiment **out);
/* `source` stands for the file's name in faults. */
VECHE_API veche_fault *veche_parse(const char *text, const char *source, veche_experiment **out);
/* Puts "optim.lr=0.1" over what the file says, and over what was put there before. On a fault the experiment is as before. */
VECHE_API veche_fault *veche_override(veche_experiment *e, const char *assignment);
/* The resolved experiment as YAML, every default written out. */
VECHE_API veche_fault *veche_print(const veche_experiment *e, char **yaml);
/* The network, a line for each layer, and what a replica of it and a lesson keep in memory. Only data sets made from files need to be here. */
VECHE_API veche_fault *veche_describe_model(const veche_experiment *e, char **text);
/* The network as operations, before and after they are simplified: as tables, as one JSON object, as a drawing. Each may be NULL where it is
 * not wanted. `cut`: the first layer of each part but the first, n_cut of them; none: as the experiment's team is cut. Parts are then shown, and
 * what crosses between them. Only data sets made from files need to be here. */
VECHE_API veche_fault *veche_graph(const veche_experiment *e, const char *const *cut, size_t n_cut, char **text,
                                   char **json, char **svg);
/* The name of the world it is for: "local", "mpi". */
VECHE_API const char *veche_experiment_world(const veche_experiment *e);
VECHE_API void veche_experiment_free(veche_experiment *e);

/* ---- runs ---- */

typedef enum {
    VECHE_PROGRESS,   /* a round is over; comes often                        */
    VECHE_EVALUATION, /* the agents were examined                            */
    VECHE_CHECKPOINT, /* the run was saved                                   */
    VECHE_NOTICE,     /* something worth a line: `text`                      */
    VECHE_METHOD      /* of a comparison: the next method begins             */
} veche_event_kind;

typedef struct {
    veche_event_kind kind;
    uint64_t round, rounds;
    double epoch, epochs;
    double real_s;    /* since the run began, pauses between stop and resume left out */
    double virtual_s; /* on the machines the experiment describes; with world mpi, on the real ones */
    size_t agents;
    double images_per_s; /* lately                                                       */
    double lr;
    double train_loss, train_accuracy; /* mean since the last evaluation; accuracy in percent */
    double loss, accuracy;             /* of the last evaluation, mean over agents; NaN before the first */
    double disagreement;               /* L2 from the mean, of the last evaluation         */
    double waiting; /* share of the agents' virtual time spent on waiting, 0 to 1: mean, ... */
    double waiting_min, waiting_max; /* ... of who waited least, of who waited most */
    const char *waited_for; /* who holds the others up, "agent 3"; NULL: none; valid during the call */
    const char *method;     /* of a comparison: which, NULL outside one ... */
    size_t number, methods; /* ... its number, from 1, of how many           */
    const char *text;       /* VECHE_NOTICE, VECHE_CHECKPOINT (the file); valid during the call */
} veche_event;

typedef void veche_watch(void *ctx, const veche_event *event);

typedef struct {
    const char *folder; /* where run folders are made; NULL: "runs" */
    veche_watch *watch; /* called from the thread in veche_go, in the locale "C"; may be NULL */
    void *ctx;
    bool alone; /* in the world `mpi`: this process is all there is, whatever others a launcher has started */
} veche_options;

/* Opens data, network and engine and makes the run's folder; nothing is trained yet. */
VECHE_API veche_fault *veche_start(const veche_experiment *e, const veche_options *options, veche_run **out);
/* Goes back to the last whole checkpoint of a run's folder. */
VECHE_API veche_fault *veche_resume(const char *run_folder, const veche_options *options, veche_run **out);
/* The same with "train.epochs=20" and others in place of what was; docs/experiments.md lists what may change. A setting that may
 * not, an experiment.yaml that was edited, and other data than before are faults that name the key. */
VECHE_API veche_fault *veche_resume_with(const char *run_folder, const char *const *assignments, size_t n,
                                         const veche_options *options, veche_run **out);
/* Trains to the end. A stop saves the run and returns a fault for which veche_fault_is_stop holds. */
VECHE_API veche_fault *veche_go(veche_run *r);
/* Asks a run to end after the round it is in. From any thread, and from a signal handler. */
VECHE_API void veche_stop(veche_run *r);
VECHE_API void veche_close(veche_run *r);

/* In the world `mpi` every process starts and trains the same experiment; rank 0 leads: it alone watches, has a folder
 * and may ask for a summary or parameters. Elsewhere there is one process, and it leads. */
VECHE_API bool veche_run_leads(const veche_run *r);
/* Which rank is where: a line for each machine; empty where there is one process. The caller frees. */
VECHE_API veche_fault *veche_run_places(const veche_run *r, char **text);
/* Whether another process of the run on this machine is gone, and which: "rank 2 (process 4711 on node7)". 1: it is, and
 * this process is the first of those left, who may say so; 2: it is; 0: none is known to be. From any thread. */
VECHE_API int veche_run_lost(const veche_run *r, char *who, size_t n);
/* How many processes mpirun or srun has started; 1 where neither has. */
VECHE_API size_t veche_processes(void);
/* The name of the world that these processes are for: "mpi"; NULL where no launcher has started this one. */
VECHE_API const char *veche_launched_world(void);
/* Several processes call this together, each with what went wrong there before the start, or NULL: where anything did all get a
 * fault, one of them the sentence and whose it is. Elsewhere `mine` is returned. */
VECHE_API veche_fault *veche_agree(veche_fault *mine);
VECHE_API const char *veche_run_folder(const veche_run *r);
VECHE_API const char *veche_run_engine(const veche_run *r); /* one line: which engine, threads, memory */
VECHE_API veche_fault *veche_summary(const veche_run *r, char **json);
VECHE_API veche_fault *veche_table(const veche_run *r, char **text);

/* The network's parameters: one flat array per agent, and which part of it is what. */
typedef struct {
    const char *name; /* "layer1.0.conv1.weight" */
    size_t dims[4], n_dims;
    size_t offset, size; /* in floats */
} veche_parameter;

VECHE_API size_t veche_parameter_count(const veche_run *r); /* named tensors      */
VECHE_API size_t veche_parameter_size(const veche_run *r);  /* floats in all      */
VECHE_API veche_parameter veche_parameter_at(const veche_run *r, size_t i);
VECHE_API veche_fault *veche_read_parameters(veche_run *r, size_t agent, float *floats);

/* ---- comparisons: one experiment by several methods, same data, seed and machines ---- */

typedef struct veche_comparison veche_comparison;

/* Works out and checks all methods and makes the comparison's folder; nothing is trained yet. `over`: n_over
 * lists "KEY=VALUE,VALUE,...", of which every combination is a method; none: every strategy that fits.
 * `target`: accuracy in percent to which methods are timed; 0: none. `out`: the folder to make, which may not
 * be there; NULL: options->folder/NAME-compare, or NAME-compare-2, ... */
VECHE_API veche_fault *veche_compare(const veche_experiment *e, const char *const *over, size_t n_over,
                                     double target, const char *out, const veche_options *options,
                                     veche_comparison **comparison);
/* Goes on with a comparison's folder: what is done is done, what was begun is resumed. */
VECHE_API veche_fault *veche_compare_resume(const char *folder, const veche_options *options,
                                            veche_comparison **comparison);
VECHE_API bool veche_is_comparison(const char *folder);
/* Trains all methods that are not done. One that fails is told of and passed over; all of
 * them failing is a fault. Stops as a run does. */
VECHE_API veche_fault *veche_compare_go(veche_comparison *c);
VECHE_API void veche_compare_stop(veche_comparison *c); /* from any thread, and from a signal handler */
/* In the world `mpi` all ranks call these together, and rank 0 leads: it alone has the folder and the figures. */
VECHE_API bool veche_compare_leads(const veche_comparison *c);
VECHE_API int veche_compare_lost(veche_comparison *c, char *who, size_t n); /* as veche_run_lost */
VECHE_API const char *veche_compare_folder(const veche_comparison *c);
/* The table of methods, or one JSON object. */
VECHE_API veche_fault *veche_compare_print(const veche_comparison *c, bool json, char **text);
VECHE_API void veche_compare_close(veche_comparison *c);

/* ---- reports ---- */

typedef struct veche_report veche_report;

/* Reads the folders of n runs, finished or not, without touching them; of a comparison, all its runs. */
VECHE_API veche_fault *veche_report_read(const char *const *runs, size_t n, veche_report **out);
/* Formats: "text" (a table), "json" (one object), "html" (a page that needs no other file), "svg:accuracy",
 * "svg:loss", "svg:disagreement", "svg:variation". `by` is the axis of the figures: "epochs" (also for NULL),
 * "seconds", "bytes". */
VECHE_API veche_fault *veche_report_print(const veche_report *r, const char *format, const char *by,
                                          char **text);
/* The same to a file, which is replaced only when all of it is written. */
VECHE_API veche_fault *veche_report_write(const veche_report *r, const char *format, const char *by,
                                          const char *path);
VECHE_API void veche_report_free(veche_report *r);

/* ---- what one may write, data sets, figures ---- */

/* All names of one category (NULL: of all), with their settings and help. */
VECHE_API veche_fault *veche_list(const char *category, char **text);

typedef struct {
    const char *name, *help;
    bool here;
    char folder[1024]; /* where it lies, or would lie */
} veche_dataset;

/* Told now and then with what is done and to be done (0: not known); false stops the fetch. */
typedef bool veche_fetch_progress(void *ctx, const char *what, uint64_t done, uint64_t total);

VECHE_API veche_fault *veche_data_folder(char *path, size_t n); /* where sets are put */
VECHE_API size_t veche_dataset_count(void);
VECHE_API veche_fault *veche_dataset_at(size_t i, veche_dataset *out);
/* `from`: a local folder or archive to take it from, or NULL. */
VECHE_API veche_fault *veche_dataset_get(const char *name, const char *from, veche_fetch_progress *progress,
                                         void *ctx);
VECHE_API veche_fault *veche_dataset_verify(const char *name, veche_fetch_progress *progress, void *ctx);

/* A graph of agents ("torus:6x6"), its figures and its mixing weights: for people, as one JSON object, as a
 * drawing. Each may be NULL where it is not wanted. `weights`: uniform, metropolis, best-constant or fastest;
 * NULL for fastest or, where the graph is too large for it, metropolis. Graphs that are drawn at random
 * follow from the seed. */
VECHE_API veche_fault *veche_topology(const char *spec, const char *weights, uint64_t seed, char **text,
                                      char **json, char **svg);

/* The best cut of a network over machines: for people, as one JSON object, as a drawing of its round's time line, and its schedule, a line
 * of passes for each machine ("0F0,0F1,0B0"). Each may be NULL where it is not wanted. The experiment gives network, optimiser, machines
 * and links; it may be NULL where settings do: "profile=LAYERS.csv", "machines=[1, 1, 0.5]", "memory_mb=512" (one number, or one
 * for each), "bandwidth_mbs=1250", "latency_ms=0.1", "schedule=1f1b", "microbatches=8", "chunks=2", "warmup=3", "any_order=true",
 * "cut=NAME,NAME", "times=measured". */
VECHE_API veche_fault *veche_plan(const veche_experiment *e, const char *const *settings, size_t n, char **text,
                                  char **json, char **svg, char **schedule_csv);

/* Figures as one JSON object. "engine": samples a second; settings are "model=resnet20", "batch=32", "precision=fp32",
 * "threads=2", "replicas=1", "seconds=5", "engine=dnnl". "local", "mix": what the local world costs beside the engine;
 * settings are overrides of an experiment, "agents=100". "allreduce": virtual seconds of a sum by every algorithm;
 * "agents=16", "floats=1000000", "latency_ms=1", "bandwidth_mbps=1000"; with "world=mpi" real seconds between the ranks that
 * call it, figures for rank 0 and no text for the others: "shortest_kb=1", "longest_kb=102400", "repeats=15". */
VECHE_API veche_fault *veche_bench(const char *what, const char *const *settings, size_t n, char **json);

#ifdef __cplusplus
}
#endif

#endif
