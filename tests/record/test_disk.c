/* A disk that is full or may not be written: one sentence with file and reason, nothing half written, nothing
 * lost.
 *
 * Such disks are made in child processes: by a limit on the size of files (always possible), by a small tmpfs
 * in a mount space of the child's own (where the system allows it), by a folder that the child may not write.
 */
#include "record/run.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "record/scratch.h"

enum { FLOATS = 100000, SKIPPED = 77 };
#define NO_TMPFS "no tmpfs can be mounted here"

static float floats[FLOATS];

static fault save(struct run_folder *r, uint64_t round, size_t n)
{
    struct named_floats t = {"theta", {n}, 1, floats, NULL};
    return run_save(r, round, &t, 1, NULL, 0);
}

/* Inside a child cmocka's asserts would jump into the parent's runner: a child says what failed and ends. */
#define CHECK(what)                                                                                          \
    do {                                                                                                     \
        if (!(what)) {                                                                                       \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                               \
            _exit(1);                                                                                        \
        }                                                                                                    \
    } while (0)

/* A fault about a file, with these words in it. */
static bool says(fault f, const char *file, const char *reason)
{
    bool yes =
        f && fault_kind_of(f) == FAULT_FILE && strstr(fault_text(f), file) && strstr(fault_text(f), reason);
    if (!yes)
        fprintf(stderr, "the fault is: %s\n", f ? fault_text(f) : "none");
    fault_drop(f);
    return yes;
}

static uint64_t size_of(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 ? (uint64_t)s.st_size : UINT64_MAX;
}

/* `excuse`: why a task may end with SKIPPED; NULL where it may not. */
static void in_a_child(void (*task)(const char *folder), const char *folder, const char *excuse)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        task(folder);
        _exit(0);
    }
    waitpid(child, &status, 0);
    if (excuse && WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
        skip_because("%s", excuse);
    assert_int_equal(status, 0);
}

static void limit_files_to(rlim_t n_bytes)
{
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {n_bytes, n_bytes};
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

/* After a failed write: no parts, and the older checkpoint as it was. */
static void check_nothing_happened(struct run_folder *r, size_t n_names)
{
    struct tensors t;
    char passed_over[RUN_PATH];
    CHECK(count_names(r->path, "") == n_names);
    CHECK(count_names(r->path, ".part-") == 0);
    CHECK(run_newest(r, NULL, NULL, &t, passed_over) == OK && passed_over[0] == '\0');
    CHECK(t.at[0].dims[0] == 10);
    tensors_release(&t);
}

static void save_beyond_the_limit(const char *folder)
{
    struct run_folder r;
    CHECK(run_create(folder, "run", "x: 1\n", 1, &r) == OK);
    CHECK(save(&r, 1, 10) == OK);
    size_t n_names = count_names(r.path, "");
    limit_files_to(100000);
    CHECK(says(save(&r, 2, FLOATS), "checkpoint-00000002.safetensors: cannot be written", "File too large"));
    check_nothing_happened(&r, n_names);
    CHECK(save(&r, 3, 10) == OK); /* and a small one still goes */
    check_nothing_happened(&r, n_names);
}

static void a_write_cut_short_leaves_the_older_checkpoint(void **state)
{
    in_a_child(save_beyond_the_limit, *state, NULL);
}

static void record_beyond_the_limit(const char *folder)
{
    struct run_folder r;
    struct score score = {0};
    struct evaluation e = {.scores = &score, .n_agents = 1};
    CHECK(run_create(folder, "run", "x: 1\n", 1, &r) == OK);
    CHECK(run_record_evaluation(&r, &e) == OK);
    const char *events = in(r.path, "events.jsonl");
    uint64_t before = size_of(events);
    limit_files_to(before + 20); /* the next line begins and cannot end */
    CHECK(says(run_record_evaluation(&r, &e), "events.jsonl: cannot be written", "File too large"));
    CHECK(size_of(events) == before);
    CHECK(run_record_fault(&r, 0, 0, "", "") != OK); /* again, and again nothing half written */
    CHECK(size_of(events) == before);
}

static void an_event_that_does_not_fit_is_cut_off_again(void **state)
{
    in_a_child(record_beyond_the_limit, *state, NULL);
}

static void create_beyond_the_limit(const char *folder)
{
    struct run_folder r;
    limit_files_to(3);
    CHECK(says(run_create(folder, "run", "x: 1\n", 1, &r), "experiment.yaml: cannot be written",
               "File too large"));
    CHECK(count_names(folder, "") == 0);
}

static void a_run_that_cannot_be_furnished_does_not_appear(void **state)
{
    in_a_child(create_beyond_the_limit, *state, NULL);
}

static void write_line(const char *path, const char *line)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file >= 0 && write(file, line, strlen(line)) < 0)
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
    if (file >= 0)
        close(file);
}

/* A mount space of our own; a user who is not root becomes root of a user space of its own. */
static bool own_mounts(void)
{
    char map[64];
    uid_t uid = getuid();
    gid_t gid = getgid();
    if (unshare(uid == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return false;
    if (uid != 0) {
        write_line("/proc/self/setgroups", "deny");
        snprintf(map, sizeof map, "0 %u 1", (unsigned)uid);
        write_line("/proc/self/uid_map", map);
        snprintf(map, sizeof map, "0 %u 1", (unsigned)gid);
        write_line("/proc/self/gid_map", map);
    }
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static void mount_tmpfs_or_skip(const char *folder, const char *options)
{
    if (!own_mounts() || mount("tmpfs", folder, "tmpfs", 0, options) != 0) {
        fprintf(stderr, NO_TMPFS " (%s)\n", strerror(errno));
        _exit(SKIPPED);
    }
}

static void fill_the_disk(const char *folder)
{
    struct run_folder r;
    mount_tmpfs_or_skip(folder, "size=256k");
    CHECK(run_create(folder, "run", "x: 1\n", 1, &r) == OK);
    CHECK(save(&r, 1, 10) == OK);
    size_t n_names = count_names(r.path, "");
    for (int i = 0; i < 3; i++)
        CHECK(says(save(&r, 2, FLOATS), "checkpoint-00000002.safetensors", "No space left on device"));
    check_nothing_happened(&r, n_names);

    int filler = open(in(folder, "filler"), O_CREAT | O_WRONLY, 0666); /* now not a byte is left */
    char block[4096] = {0};
    while (write(filler, block, sizeof block) > 0)
        continue;
    struct score score = {0};
    struct evaluation e = {.scores = &score, .n_agents = 1};
    uint64_t events = size_of(in(r.path, "events.jsonl"));
    CHECK(says(run_record_evaluation(&r, &e), "events.jsonl", "No space left on device"));
    CHECK(size_of(in(r.path, "events.jsonl")) == events);
    CHECK(says(run_write_summary(
                   &r,
                   &(struct summary){
                       .name = "", .strategy = "", .status = "", .run = "", .version = "", .engine = ""}),
               "summary.json", "No space left on device"));
    check_nothing_happened(&r, n_names);
    struct run_folder other;
    CHECK(says(run_create(folder, "other", "x: 1\n", 1, &other), "other", "No space left on device"));
    CHECK(count_names(folder, "other") == 0);
    close(filler);
    CHECK(unlink(in(folder, "filler")) == 0);
    CHECK(save(&r, 3, 10) == OK && run_record_evaluation(&r, &e) == OK); /* room again: all goes on */
    check_nothing_happened(&r, n_names);
}

static void a_full_disk_costs_nothing_but_the_new_checkpoint(void **state)
{
    in_a_child(fill_the_disk, *state, NO_TMPFS);
}

static void write_to_a_disk_made_read_only(const char *folder)
{
    struct run_folder r, other;
    mount_tmpfs_or_skip(folder, "size=1m");
    CHECK(run_create(folder, "run", "x: 1\n", 1, &r) == OK);
    CHECK(save(&r, 1, 10) == OK);
    size_t n_names = count_names(r.path, "");
    run_close(&r);
    CHECK(mount(NULL, folder, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
    CHECK(says(save(&r, 2, 10), "checkpoint-00000002.safetensors", "Read-only file system"));
    CHECK(says(run_open(in(folder, "run"), 1, &other), "run/lock", "Read-only file system"));
    CHECK(says(run_create(folder, "more", "", 1, &other), "more", "Read-only file system"));
    check_nothing_happened(&r, n_names);
}

static void a_read_only_disk_is_named_as_the_reason(void **state)
{
    in_a_child(write_to_a_disk_made_read_only, *state, NO_TMPFS);
}

/* Root may write anywhere, so as root the child becomes nobody first. */
static void write_without_the_right(const char *folder)
{
    struct run_folder r, other;
    const char *path = in(folder, "run");
    CHECK(run_create(folder, "run", "x: 1\n", 1, &r) == OK);
    CHECK(save(&r, 1, 10) == OK);
    size_t n_names = count_names(r.path, "");
    run_close(&r);
    CHECK(chmod(in(path, "lock"), 0444) == 0 && chmod(in(path, "events.jsonl"), 0444) == 0);
    CHECK(chmod(path, 0555) == 0 && chmod(folder, 0555) == 0);
    if (getuid() == 0 && (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0)) {
        perror("nobody");
        _exit(SKIPPED);
    }
    CHECK(says(run_open(path, 1, &other), "run/lock", "Permission denied"));
    CHECK(says(run_create(folder, "more", "", 1, &other), "more", "Permission denied"));
    CHECK(says(run_create(in(folder, "new/runs"), "more", "", 1, &other), "new", "Permission denied"));
    CHECK(says(save(&r, 2, 10), "checkpoint-00000002.safetensors", "Permission denied"));
    CHECK(says(run_rewind_events(&r, 0), "events.jsonl", "Permission denied"));
    check_nothing_happened(&r, n_names);
    CHECK(count_names(folder, "") == 1);
}

static void a_folder_one_may_not_write_is_named_as_the_reason(void **state)
{
    in_a_child(write_without_the_right, *state, "root cannot become nobody here");
    chmod(*state, 0755);
    chmod(in(*state, "run"), 0755);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH(a_write_cut_short_leaves_the_older_checkpoint),
        SCRATCH(an_event_that_does_not_fit_is_cut_off_again),
        SCRATCH(a_run_that_cannot_be_furnished_does_not_appear),
        SCRATCH(a_full_disk_costs_nothing_but_the_new_checkpoint),
        SCRATCH(a_read_only_disk_is_named_as_the_reason),
        SCRATCH(a_folder_one_may_not_write_is_named_as_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
