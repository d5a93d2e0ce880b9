/* fault.h - the one kind of error in veche.
 *
 * The function that first knows the cause writes the sentence with FAIL; those above pass it on with TRY; only a
 * program's `main` prints it. A fault is a small object on the heap that its holder must pass on or drop, so that
 * threads, fibers and several experiments in one process never share a buffer. OK is the null pointer.
 */
#ifndef VECHE_BASE_FAULT_H
#define VECHE_BASE_FAULT_H

#define FAULTS(X)                                                                                            \
    X(FAULT_MEMORY, "out of memory")                                                                         \
    X(FAULT_USAGE, "the call is not allowed here")                                                           \
    X(FAULT_EXPERIMENT, "the experiment is not well formed")                                                 \
    X(FAULT_SHAPE, "shapes do not fit together")                                                             \
    X(FAULT_DATA, "the data are not as they should be")                                                      \
    X(FAULT_FILE, "a file cannot be read or written")                                                        \
    X(FAULT_CHECKPOINT, "a checkpoint is not whole")                                                         \
    X(FAULT_ENGINE, "the engine cannot do this")                                                             \
    X(FAULT_NUMBER, "a number is not finite")                                                                \
    X(FAULT_PEER, "another agent is gone")                                                                   \
    X(FAULT_TIMEOUT, "a peer did not answer in time")                                                        \
    X(FAULT_CRASH, "the agent's own machine is down")                                                        \
    X(FAULT_GIVEN_UP, "the others go on without this agent")                                                 \
    X(FAULT_STOPPED, "stopped on request")                                                                   \
    X(FAULT_ELSEWHERE, "another process tells what went wrong")

enum fault_kind {
#define FAULT_ENUM(name, help) name,
    FAULTS(FAULT_ENUM)
#undef FAULT_ENUM
        FAULT_KINDS
};

typedef const struct fault_body *fault;
#define OK ((fault)0)

/* Makes a fault; never returns OK. When memory is out it returns a fixed fault that says so. */
fault fault_make(enum fault_kind kind, const char *format, ...)
    __attribute__((format(printf, 2, 3), returns_nonnull));

/* The same fault with a few words put in front of its sentence ("file.yaml:3:1: "); takes `f`. */
fault fault_before(fault f, const char *format, ...) __attribute__((format(printf, 2, 3), returns_nonnull));

enum fault_kind fault_kind_of(fault f);
const char *fault_text(fault f);               /* the sentence; lives as long as the fault     */
const char *fault_kind_help(enum fault_kind k); /* what the kind means, in a few words          */
void fault_drop(fault f);                      /* done with it; OK is allowed                   */

#define FAIL(kind, ...) fault_make(kind, __VA_ARGS__)
#define TRY(call)                                                                                            \
    do {                                                                                                     \
        fault fault_of_try_ = (call);                                                                        \
        if (fault_of_try_)                                                                                   \
            return fault_of_try_;                                                                            \
    } while (0)
/* Like TRY where something is held: keeps the fault in `f` and jumps to the label that undoes it. */
#define TRY_OR(label, f, call)                                                                               \
    do {                                                                                                     \
        (f) = (call);                                                                                        \
        if (f)                                                                                               \
            goto label;                                                                                      \
    } while (0)

#endif
