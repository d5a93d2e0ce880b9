/* A run's folder: made whole under a name of its own, worked on by one, its events whole lines. */
#include "record/run.h"

#include <jansson.h>
#include <math.h>
#include <sys/wait.h>

#include "record/scratch.h"

static struct run_folder created(const char *parent, const char *name)
{
    struct run_folder r;
    assert_ok(run_create(parent, name, "name: x\n", 2, &r));
    return r;
}

static void a_new_run_holds_its_experiment(void **state)
{
    struct run_folder r = created(*state, "first");
    size_t n;
    assert_string_equal(r.path, in(*state, "first"));
    char *text = slurp(in(r.path, "experiment.yaml"), &n);
    assert_string_equal(text, "name: x\n# digest: ce84fb4888d50e1a\n");
    free(text);
    assert_int_equal(count_names(*state, ""), 1); /* nothing hidden beside it */
    assert_int_equal(count_names(r.path, "part"), 0);
    run_close(&r);
}

static void a_name_that_is_taken_gets_a_number(void **state)
{
    struct run_folder a = created(*state, "x"), b = created(*state, "x");
    assert_int_equal(mkdir(in(*state, "x-3"), 0777), 0); /* empty and a stranger's, but there */
    spit(in(*state, "x-4"), "a file", 6);
    struct run_folder c = created(*state, "x");
    assert_string_equal(b.path, in(*state, "x-2"));
    assert_string_equal(c.path, in(*state, "x-5"));
    assert_int_equal(count_names(in(*state, "x-3"), ""), 0);
    run_close(&a);
    run_close(&b);
    run_close(&c);
}

static void folders_on_the_way_are_made(void **state)
{
    struct run_folder r = created(in(*state, "a/b//c/"), "deep");
    assert_true(exists(in(*state, "a/b/c/deep/experiment.yaml")));
    run_close(&r);
}

static void names_that_would_lead_elsewhere_are_refused(void **state)
{
    static const char *const names[] = {"", ".", "..", ".hidden", "a/b", "/", "x.part-1"};
    struct run_folder r;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_fault(run_create(*state, names[i], "", 1, &r), FAULT_USAGE, "cannot be the name");
    assert_int_equal(count_names(*state, ""), 0);
}

static void a_run_where_a_file_stands_is_a_fault_and_leaves_nothing(void **state)
{
    struct run_folder r;
    spit(in(*state, "file"), "x", 1);
    assert_fault(run_create(in(*state, "file"), "run", "", 1, &r), FAULT_FILE, "file");
    assert_fault(run_create(in(*state, "file/deeper"), "run", "", 1, &r), FAULT_FILE, "Not a directory");
    assert_int_equal(count_names(*state, ""), 1);
}

static void a_path_that_is_too_long_is_a_fault(void **state)
{
    char name[2 * RUN_PATH];
    struct run_folder r;
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    assert_fault(run_create(*state, name, "", 1, &r), FAULT_FILE, "too long");
    assert_fault(run_open(name, 1, &r), FAULT_FILE, "too long");
    name[300] = '\0'; /* longer than a file's name may be */
    assert_fault(run_create(*state, name, "", 1, &r), FAULT_FILE, "File name too long");
    assert_int_equal(count_names(*state, ""), 0);
}

/* Eight processes wait at a gate and then all make a run of the same name. */
static void processes_at_the_same_moment_get_different_names(void **state)
{
    enum { N = 8 };
    int gate[2], told[2];
    assert_int_equal(pipe(gate) | pipe(told), 0);
    for (int i = 0; i < N; i++)
        if (fork() == 0) {
            struct run_folder r;
            char go;
            close(gate[1]);
            if (read(gate[0], &go, 1) != 0 || run_create(*state, "same", "x: 1\n", 1, &r))
                _exit(1);
            _exit(write(told[1], r.path, RUN_PATH) != RUN_PATH);
        }
    close(gate[0]);
    close(gate[1]); /* open */
    close(told[1]);
    char paths[N][RUN_PATH];
    for (int i = 0; i < N; i++) {
        size_t have = 0;
        for (ssize_t n; have < RUN_PATH && (n = read(told[0], paths[i] + have, RUN_PATH - have)) > 0;)
            have += (size_t)n;
        assert_int_equal(have, RUN_PATH);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(paths[i], paths[j]);
        assert_true(exists(in(paths[i], "experiment.yaml")));
    }
    close(told[0]);
    for (int i = 0, status; i < N; i++) {
        wait(&status);
        assert_int_equal(status, 0);
    }
    assert_int_equal(count_names(*state, ""), N);
}

static void a_run_is_worked_on_by_one_process_only(void **state)
{
    struct run_folder r = created(*state, "mine"), again;
    assert_fault(run_open(r.path, 2, &again), FAULT_USAGE, "mine: is being worked on by another process");
    pid_t child = fork();
    if (child == 0) {
        fault f = run_open(in(*state, "mine"), 2, &again);
        _exit(!(f && fault_kind_of(f) == FAULT_USAGE));
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    run_close(&r);
    assert_ok(run_open(in(*state, "mine"), 2, &again));
    run_close(&again);
}

static void a_folder_that_is_no_run_is_refused_untouched(void **state)
{
    struct run_folder r;
    assert_fault(run_open(*state, 2, &r), FAULT_FILE, "is not a run");
    assert_fault(run_open(in(*state, "nowhere"), 2, &r), FAULT_FILE, "nowhere: is not a run");
    assert_int_equal(count_names(*state, ""), 0);
}

static void opening_sweeps_the_parts_of_interrupted_writes_and_nothing_else(void **state)
{
    struct run_folder r = created(*state, "run");
    spit(in(r.path, "checkpoint-00000007.safetensors.part-123-0"), "half", 4);
    spit(in(r.path, "summary.json.part-99-1"), "", 0);
    spit(in(r.path, "notes.txt"), "mine", 4);
    run_close(&r);
    assert_ok(run_open(r.path, 2, &r));
    assert_int_equal(count_names(r.path, ".part-"), 0);
    assert_true(exists(in(r.path, "notes.txt")));
    run_close(&r);
}

static void creating_sweeps_the_folders_of_processes_that_were_killed_and_nothing_else(void **state)
{
    int lock;
    assert_int_equal(mkdir(in(*state, ".x.part-123-0"), 0777), 0);
    spit(in(*state, ".x.part-123-0/lock"), "", 0);
    spit(in(*state, ".x.part-123-0/experiment.yaml"), "half", 4);
    assert_int_equal(mkdir(in(*state, ".y.part-99-7"), 0777), 0); /* killed before it had a lock */
    assert_int_equal(mkdir(in(*state, ".z.part-1-0"), 0777), 0);  /* of a process that lives */
    assert_ok(folder_lock(in(*state, ".z.part-1-0"), &lock));
    assert_int_equal(mkdir(in(*state, ".mine"), 0777), 0);
    spit(in(*state, ".file.part-1-0"), "", 0);
    struct run_folder r = created(*state, "x");
    assert_int_equal(count_names(*state, ".part-"), 2);
    assert_true(exists(in(*state, ".z.part-1-0/lock")));
    assert_true(exists(in(*state, ".file.part-1-0")));
    assert_true(exists(in(*state, ".mine")));
    run_close(&r);
    close(lock);
}

/* Each sweeps while the others create. */
static void many_that_create_at_once_all_come_to_a_folder(void **state)
{
    enum { PROCESSES = 4, EACH = 25 };
    for (int i = 0; i < PROCESSES; i++) {
        if (fork() != 0)
            continue;
        for (int k = 0; k < EACH; k++) {
            struct run_folder r;
            if (run_create(*state, "x", "", 1, &r))
                _exit(1);
            run_close(&r);
        }
        _exit(0);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        wait(&status);
        assert_int_equal(status, 0);
    }
    assert_int_equal(count_names(*state, "x"), PROCESSES * EACH);
    assert_int_equal(count_names(*state, ".part-"), 0);
}

/* What a run writes in place is its own: a link could lead anywhere, a pipe would be waited for. */
static void a_lock_or_events_that_are_not_plain_files_are_refused(void **state)
{
    static const char *const names[] = {"lock", "events.jsonl"};
    spit(in(*state, "precious"), "mine", 4);
    for (size_t i = 0; i < 2; i++) {
        struct run_folder r = created(*state, names[i]), again;
        run_close(&r);
        char *path = strdup(in(r.path, names[i])), *target = strdup(in(*state, "precious"));
        assert_int_equal(unlink(path), 0);
        assert_int_equal(symlink(target, path), 0);
        assert_fault(run_open(r.path, 1, &again), FAULT_FILE, "is a symbolic link, and is not followed");
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkfifo(path, 0666), 0);
        assert_fault(run_open(r.path, 1, &again), FAULT_FILE, "it is not a plain file");
        free(path);
        free(target);
    }
    size_t n;
    char *text = slurp(in(*state, "precious"), &n);
    assert_string_equal(text, "mine");
    free(text);
}

/* ---- events ---- */

static void record_round(struct run_folder *r, uint64_t round)
{
    struct score scores[] = {
        {.train_loss = 0.5,
         .train_accuracy = 80,
         .loss = 0.25,
         .accuracy = 91.5,
         .lr = 0.1,
         .waiting_s = 2,
         .bytes = 100,
         .messages = 3,
         .epoch = 1.5,
         .rounds = 12,
         .staleness_mean = 0.75,
         .staleness_max = 4,
         .alive = true},
        {.train_loss = NAN, .loss = INFINITY, .accuracy = 10, .bytes = 11, .messages = 1, .waiting_s = 0.5}};
    struct evaluation e = {.step = round,
                           .round = round,
                           .epoch = 0.1,
                           .real_s = 3,
                           .virtual_s = 4,
                           .samples = 640,
                           .scores = scores,
                           .n_agents = 2,
                           .averaged_loss = 0.125,
                           .averaged_accuracy = NAN,
                           .disagreement = {1, 2, -INFINITY, 4}};
    assert_ok(run_record_evaluation(r, &e));
}

/* The events as a JSON array; every line must be an object. */
static json_t *events_of(const struct run_folder *r)
{
    size_t n;
    char *text = slurp(in(r->path, "events.jsonl"), &n), *rest = text;
    json_t *all = json_array();
    assert_true(n == 0 || text[n - 1] == '\n');
    for (char *line; (line = strsep(&rest, "\n")) && *line;) {
        json_t *event = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        assert_true(json_is_object(event));
        json_array_append_new(all, event);
    }
    free(text);
    return all;
}

static double real_of(const json_t *object, const char *key)
{
    assert_true(json_is_number(json_object_get(object, key)));
    return json_number_value(json_object_get(object, key));
}

static void an_evaluation_is_one_line_with_everything_in_it(void **state)
{
    struct run_folder r = created(*state, "run");
    record_round(&r, 5);
    json_t *all = events_of(&r), *e = json_array_get(all, 0);
    assert_int_equal(json_array_size(all), 1);
    assert_string_equal(json_string_value(json_object_get(e, "event")), "evaluation");
    assert_true(real_of(e, "round") == 5 && real_of(e, "epoch") == 0.1 && real_of(e, "samples") == 640);
    assert_true(real_of(e, "real_s") == 3 && real_of(e, "virtual_s") == 4);
    assert_true(real_of(e, "bytes") == 111 && real_of(e, "messages") == 4);
    assert_true(real_of(e, "step") == 5 && real_of(e, "waiting_s") == 2.5);
    assert_true(real_of(e, "averaged_loss") == 0.125);
    assert_true(json_is_null(json_object_get(e, "averaged_accuracy")));
    json_t *agent = json_array_get(json_object_get(e, "agents"), 0);
    assert_true(real_of(agent, "agent") == 0 && real_of(agent, "train_loss") == 0.5);
    assert_true(real_of(agent, "train_accuracy") == 80 && real_of(agent, "loss") == 0.25);
    assert_true(real_of(agent, "accuracy") == 91.5 && real_of(agent, "lr") == 0.1);
    assert_true(real_of(agent, "bytes") == 100 && real_of(agent, "messages") == 3);
    assert_true(real_of(agent, "waiting_s") == 2 && real_of(agent, "epoch") == 1.5);
    assert_true(real_of(agent, "rounds") == 12 && json_is_true(json_object_get(agent, "alive")));
    assert_true(real_of(agent, "staleness_mean") == 0.75 && real_of(agent, "staleness_max") == 4);
    agent = json_array_get(json_object_get(e, "agents"), 1);
    assert_true(json_is_false(json_object_get(agent, "alive")));
    json_decref(all);
    run_close(&r);
}

static void what_is_not_a_finite_number_is_null(void **state)
{
    struct run_folder r = created(*state, "run");
    record_round(&r, 5);
    json_t *all = events_of(&r), *e = json_array_get(all, 0);
    json_t *agent = json_array_get(json_object_get(e, "agents"), 1);
    assert_true(json_is_null(json_object_get(agent, "train_loss")));
    assert_true(json_is_null(json_object_get(agent, "loss")));
    json_t *d = json_object_get(e, "disagreement");
    assert_true(real_of(d, "l1") == 1 && real_of(d, "l2") == 2 && real_of(d, "variation") == 4);
    assert_true(json_is_null(json_object_get(d, "linf")));
    json_decref(all);
    run_close(&r);
}

static void numbers_are_written_as_one_would_write_them(void **state)
{
    struct run_folder r = created(*state, "run");
    size_t n;
    record_round(&r, 5);
    char *text = slurp(in(r.path, "events.jsonl"), &n);
    assert_non_null(strstr(text, "\"epoch\":0.1,"));
    free(text);
    run_close(&r);
}

static void a_fault_is_an_event_even_when_its_words_are_not_text(void **state)
{
    struct run_folder r = created(*state, "run");
    assert_ok(run_record_fault(&r, 9, 1.5, "FAULT_FILE", "one \"quoted\"\nsentence"));
    assert_ok(run_record_fault(&r, 9, 1.5, "FAULT_FILE", "a \xe4 in Latin-1"));
    json_t *all = events_of(&r), *e = json_array_get(all, 0);
    assert_string_equal(json_string_value(json_object_get(e, "event")), "fault");
    assert_string_equal(json_string_value(json_object_get(e, "kind")), "FAULT_FILE");
    assert_string_equal(json_string_value(json_object_get(e, "sentence")), "one \"quoted\"\nsentence");
    assert_string_equal(json_string_value(json_object_get(json_array_get(all, 1), "sentence")),
                        "a ? in Latin-1");
    json_decref(all);
    run_close(&r);
}

static void a_note_says_what_happened_to_whom_and_when(void **state)
{
    struct run_folder r = created(*state, "run");
    assert_ok(run_record_note(&r, 7, 12.5, 0.25, 3, "crash", "agent 3 crashed"));
    assert_ok(run_record_note(&r, 8, 13, NAN, -1, "partition", "a | b"));
    json_t *all = events_of(&r), *e = json_array_get(all, 0), *everybody = json_array_get(all, 1);
    assert_string_equal(json_string_value(json_object_get(e, "event")), "note");
    assert_true(real_of(e, "step") == 7 && real_of(e, "virtual_s") == 12.5 && real_of(e, "real_s") == 0.25);
    assert_true(real_of(e, "agent") == 3);
    assert_string_equal(json_string_value(json_object_get(e, "kind")), "crash");
    assert_string_equal(json_string_value(json_object_get(e, "text")), "agent 3 crashed");
    assert_true(json_is_null(json_object_get(everybody, "agent")));
    assert_true(json_is_null(json_object_get(everybody, "real_s")));
    json_decref(all);
    run_close(&r);
}

static size_t count_events(const struct run_folder *r)
{
    json_t *all = events_of(r);
    size_t n = json_array_size(all);
    json_decref(all);
    return n;
}

static void events_go_on_after_reopening(void **state)
{
    struct run_folder r = created(*state, "run");
    record_round(&r, 1);
    run_close(&r);
    assert_ok(run_open(r.path, 2, &r));
    record_round(&r, 2);
    assert_int_equal(count_events(&r), 2);
    run_close(&r);
}

static void a_half_written_last_line_is_cut_wherever_it_broke_off(void **state)
{
    struct run_folder r = created(*state, "run");
    record_round(&r, 1);
    record_round(&r, 2);
    run_close(&r);
    size_t n;
    char *text = slurp(in(r.path, "events.jsonl"), &n);
    size_t first = (size_t)(strchr(text, '\n') - text) + 1;
    for (size_t cut = 0; cut <= n; cut += 7) {
        spit(in(r.path, "events.jsonl"), text, cut);
        assert_ok(run_open(r.path, 2, &r));
        record_round(&r, 3);
        assert_int_equal(count_events(&r), 1 + (cut >= first) + (cut == n));
        run_close(&r);
    }
    free(text);
}

static void a_missing_events_file_is_made_again(void **state)
{
    struct run_folder r = created(*state, "run");
    run_close(&r);
    assert_int_equal(unlink(in(r.path, "events.jsonl")), 0);
    assert_ok(run_open(r.path, 2, &r));
    record_round(&r, 1);
    assert_int_equal(count_events(&r), 1);
    run_close(&r);
}

static void rewinding_removes_exactly_the_later_steps(void **state)
{
    struct run_folder r = created(*state, "run");
    for (uint64_t round = 0; round <= 10; round++)
        record_round(&r, round);
    assert_ok(run_record_fault(&r, 10, 1, "k", "late"));
    assert_ok(run_rewind_events(&r, 6));
    json_t *all = events_of(&r);
    assert_int_equal(json_array_size(all), 7);
    for (size_t i = 0; i < 7; i++)
        assert_true(real_of(json_array_get(all, i), "round") == (double)i);
    json_decref(all);
    record_round(&r, 7); /* goes to the new file, at its end */
    assert_int_equal(count_events(&r), 8);
    assert_ok(run_rewind_events(&r, 100));
    assert_int_equal(count_events(&r), 8);
    assert_int_equal(count_names(r.path, "part"), 0);
    run_close(&r);
}

static void rewinding_goes_by_the_step_and_drops_notes_as_well(void **state)
{
    struct run_folder r = created(*state, "run");
    assert_ok(run_record_note(&r, 3, 1, 1, 0, "crash", "kept"));
    record_round(&r, 4);
    assert_ok(run_record_note(&r, 4, 2, 2, 0, "return", "kept: of the very step of the checkpoint"));
    assert_ok(run_record_note(&r, 5, 2, 2, 0, "crash", "lived again"));
    assert_ok(run_record_fault(&r, 5, 2, "k", "lived again"));
    assert_ok(run_record_fault(&r, 4, 2, "k", "kept, though lines before it go"));
    assert_ok(run_rewind_events(&r, 4));
    json_t *all = events_of(&r);
    assert_int_equal(json_array_size(all), 4);
    for (size_t i = 0; i < 4; i++)
        assert_true(real_of(json_array_get(all, i), "step") == (double)(3 + (i > 0)));
    json_decref(all);
    record_round(&r, 5);
    run_close(&r);
    assert_ok(run_open(r.path, 2, &r)); /* each line goes on from the one now before it */
    assert_int_equal(count_events(&r), 5);
    run_close(&r);
}

static void a_line_that_is_no_event_is_named_and_nothing_is_touched(void **state)
{
    static const char *const lines[] = {"garbage\n", "[1]\n", "{\"event\":\"note\",\"step\":1}\n", "\n"};
    struct run_folder r = created(*state, "run");
    record_round(&r, 1);
    run_close(&r);
    size_t n, after;
    char *text = slurp(in(r.path, "events.jsonl"), &n);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        strcpy(text + n, lines[i]);
        spit(in(r.path, "events.jsonl"), text, n + strlen(lines[i]));
        assert_fault(run_open(r.path, 2, &r), FAULT_FILE, "run/events.jsonl:2: is damaged");
        free(slurp(in(r.path, "events.jsonl"), &after));
        assert_int_equal(after, n + strlen(lines[i]));
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH(a_new_run_holds_its_experiment),
        SCRATCH(a_name_that_is_taken_gets_a_number),
        SCRATCH(folders_on_the_way_are_made),
        SCRATCH(names_that_would_lead_elsewhere_are_refused),
        SCRATCH(a_run_where_a_file_stands_is_a_fault_and_leaves_nothing),
        SCRATCH(a_path_that_is_too_long_is_a_fault),
        SCRATCH(processes_at_the_same_moment_get_different_names),
        SCRATCH(a_run_is_worked_on_by_one_process_only),
        SCRATCH(a_folder_that_is_no_run_is_refused_untouched),
        SCRATCH(opening_sweeps_the_parts_of_interrupted_writes_and_nothing_else),
        SCRATCH(creating_sweeps_the_folders_of_processes_that_were_killed_and_nothing_else),
        SCRATCH(many_that_create_at_once_all_come_to_a_folder),
        SCRATCH(a_lock_or_events_that_are_not_plain_files_are_refused),
        SCRATCH(an_evaluation_is_one_line_with_everything_in_it),
        SCRATCH(what_is_not_a_finite_number_is_null),
        SCRATCH(numbers_are_written_as_one_would_write_them),
        SCRATCH(a_fault_is_an_event_even_when_its_words_are_not_text),
        SCRATCH(a_note_says_what_happened_to_whom_and_when),
        SCRATCH(events_go_on_after_reopening),
        SCRATCH(a_half_written_last_line_is_cut_wherever_it_broke_off),
        SCRATCH(a_missing_events_file_is_made_again),
        SCRATCH(rewinding_removes_exactly_the_later_steps),
        SCRATCH(rewinding_goes_by_the_step_and_drops_notes_as_well),
        SCRATCH(a_line_that_is_no_event_is_named_and_nothing_is_touched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
