/* fiber.c - stackful coroutines in one small file.
 *
 *   fiber_resume: remember where I am, go to the fiber's stack     fiber_park: remember, go back
 *
 * On x86-64 a switch saves the six registers the calling convention asks for and exchanges the stack
 * pointers, about two nanoseconds; elsewhere swapcontext does the same with two system calls.
 */
#include "world/local/fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/arena.h"

#if defined(__SANITIZE_ADDRESS__)
#define ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TSAN 1
#endif
#endif

#ifdef ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef TSAN
#include <sanitizer/tsan_interface.h>
#endif

enum { PAGE = 4096 };

#if defined(__x86_64__)

struct turn {
    void *stack_pointer;
};

void fiber_switch(void **save, void *load) __attribute__((visibility("hidden")));
void fiber_start(void) __attribute__((visibility("hidden")));

__asm__(".text\n"
        ".hidden fiber_switch\n.globl fiber_switch\n.type fiber_switch, @function\n"
        "fiber_switch:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
        "    ret\n"
        ".size fiber_switch, .-fiber_switch\n"
        ".hidden fiber_start\n.globl fiber_start\n.type fiber_start, @function\n"
        "fiber_start:\n" /* the first switch to a fiber returns here; r12 and r13 were laid out by
                                  turn_prepare */
        "    movq %r12, %rdi\n"
        "    call *%r13\n"
        "    ud2\n"
        ".size fiber_start, .-fiber_start\n");

static void turn_switch(struct turn *from, struct turn *to)
{
    fiber_switch(&from->stack_pointer, to->stack_pointer);
}

static void turn_prepare(struct turn *t, void *stack, size_t n_bytes, void (*first)(struct fiber *),
                         struct fiber *f)
{
    uintptr_t top = ((uintptr_t)stack + n_bytes) & ~(uintptr_t)15;
    void **sp = (void **)(top - 16); /* so that the stack is aligned as at a call when fiber_start runs */
    *--sp = (void *)(uintptr_t)fiber_start;
    *--sp = NULL;                     /* rbp */
    *--sp = NULL;                     /* rbx */
    *--sp = f;                        /* r12 */
    *--sp = (void *)(uintptr_t)first; /* r13 */
    *--sp = NULL;                     /* r14 */
    *--sp = NULL;                     /* r15 */
    t->stack_pointer = sp;
}

#else

#include <ucontext.h>

struct turn {
    ucontext_t context;
};

static void turn_switch(struct turn *from, struct turn *to)
{
    swapcontext(&from->context, &to->context);
}

static void turn_entry(unsigned high, unsigned low, unsigned fiber_high, unsigned fiber_low)
{
    void (*first)(struct fiber *) = (void (*)(struct fiber *))(((uintptr_t)high << 16 << 16) | low);
    first((struct fiber *)(((uintptr_t)fiber_high << 16 << 16) | fiber_low));
}

static void turn_prepare(struct turn *t, void *stack, size_t n_bytes, void (*first)(struct fiber *),
                         struct fiber *f)
{
    uintptr_t a = (uintptr_t)first, b = (uintptr_t)f;
    getcontext(&t->context);
    t->context.uc_stack.ss_sp = stack;
    t->context.uc_stack.ss_size = n_bytes;
    t->context.uc_link = NULL;
    makecontext(&t->context, (void (*)(void))turn_entry, 4, (unsigned)(a >> 16 >> 16), (unsigned)a,
                (unsigned)(b >> 16 >> 16), (unsigned)b);
}

#endif

struct fiber {
    struct turn mine, resumer;
    const struct fibers *all;
    char *memory; /* borrowed: the guard page, then the stack */
    fiber_program *program;
    void *arg;
    bool ended;
#ifdef ASAN
    void *fake_stack;
    const void *resumer_stack;
    size_t resumer_bytes;
#endif
#ifdef TSAN
    void *tsan, *resumer_tsan;
#endif
};

struct fibers {
    enum guards guards;
    size_t n, each_bytes; /* of a guard page and a stack */
    char *memory;         /* owned: of all */
    struct fiber fibers[];
};

static size_t stack_bytes(const struct fiber *f)
{
    return f->all->each_bytes - PAGE;
}

/* The sanitizers are told before each switch, and after it on the other side. */
static void announce_to_fiber(struct fiber *f, void **fake)
{
#ifdef ASAN
    __sanitizer_start_switch_fiber(fake, f->memory + PAGE, stack_bytes(f));
#endif
#ifdef TSAN
    f->resumer_tsan = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(f->tsan, 0);
#endif
    (void)f, (void)fake;
}

static void announce_from_fiber(struct fiber *f)
{
#ifdef ASAN
    __sanitizer_start_switch_fiber(f->ended ? NULL : &f->fake_stack, f->resumer_stack, f->resumer_bytes);
#endif
#ifdef TSAN
    __tsan_switch_to_fiber(f->resumer_tsan, 0);
#endif
    (void)f;
}

static void arrived_in_fiber(struct fiber *f)
{
#ifdef ASAN
    __sanitizer_finish_switch_fiber(f->fake_stack, &f->resumer_stack, &f->resumer_bytes);
#endif
    (void)f;
}

/* ---- guards ---- */

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* not yet in every libc */
#endif

/* Maps that fibers may take of those that a process may have. */
enum { MOST_MAPS = 16384 };

static bool guard(enum guards guards, char *page)
{
    switch (guards) {
    case GUARDS_MARKED:
        return madvise(page, PAGE, MADV_GUARD_INSTALL) == 0;
    case GUARDS_MAPPED:
        return mprotect(page, PAGE, PROT_NONE) == 0;
    default:
        return true;
    }
}

/* An emulator says yes to every advice and takes none (qemu-user): who says yes to this one marks no page. */
static bool takes_advice(char *page)
{
    enum { NO_ADVICE = 0x7fff };
    return madvise(page, PAGE, NO_ADVICE) != 0;
}

/* A page that was never written is all zeros, and takes no memory when it is read. Every call leaves
 * its return address: an overflow leaves a trace here, unless a single frame is longer than the page, and none is. */
static void check_guard(const struct fiber *f)
{
    const uint64_t *words = (const uint64_t *)(const void *)f->memory;
    uint64_t any = 0;
    if (f->all->guards != GUARDS_CHECKED)
        return;
    for (size_t i = 0; i < PAGE / sizeof *words; i++)
        any |= words[i];
    if (any)
        __builtin_trap(); /* as the kernel would: the stack has overflowed */
}

/* ---- turns ---- */

static void run_program(struct fiber *f)
{
    arrived_in_fiber(f);
    f->program(f->arg);
    f->ended = true;
    check_guard(f);
    announce_from_fiber(f);
    turn_switch(&f->mine, &f->resumer);
}

void fiber_begin(struct fiber *f, fiber_program *program, void *arg)
{
    f->program = program;
    f->arg = arg;
    f->ended = false;
#ifdef ASAN
    f->fake_stack = NULL;
#endif
    turn_prepare(&f->mine, f->memory + PAGE, stack_bytes(f), run_program, f);
}

void fiber_resume(struct fiber *f)
{
    void *fake = NULL;
    announce_to_fiber(f, &fake);
    turn_switch(&f->resumer, &f->mine);
#ifdef ASAN
    __sanitizer_finish_switch_fiber(fake, NULL, NULL);
#endif
}

void fiber_park(struct fiber *f)
{
    check_guard(f);
    announce_from_fiber(f);
    turn_switch(&f->mine, &f->resumer);
    arrived_in_fiber(f);
}

bool fiber_has_ended(const struct fiber *f)
{
    return f->ended;
}

/* ---- opening and closing ---- */

static void init_fiber(struct fibers *all, size_t i)
{
    struct fiber *f = &all->fibers[i];
    f->all = all;
    f->memory = all->memory + i * all->each_bytes;
    f->ended = true;
#ifdef TSAN
    f->tsan = __tsan_create_fiber(0);
#endif
}

/* Huge pages would give each stack two megabytes. */
static bool take_memory(struct fibers *all)
{
    size_t n_bytes;
    if (__builtin_mul_overflow(all->n, all->each_bytes, &n_bytes))
        return false;
    all->memory = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (all->memory == MAP_FAILED)
        return false;
    madvise(all->memory, n_bytes, MADV_NOHUGEPAGE);
    bool guarded = all->guards != GUARDS_MARKED || takes_advice(all->memory);
    for (size_t i = 0; guarded && i < all->n; i++)
        guarded = guard(all->guards, all->memory + i * all->each_bytes);
    if (!guarded)
        munmap(all->memory, n_bytes);
    return guarded;
}

fault fibers_open_with(enum guards guards, size_t n, size_t n_bytes, struct fibers **out)
{
    struct fibers *all = calloc(1, sizeof *all + n * sizeof *all->fibers);
    if (!all)
        return OUT_OF_MEMORY;
    all->guards = guards;
    all->n = n;
    all->each_bytes = round_up(n_bytes, PAGE) + PAGE;
    if (!take_memory(all)) {
        free(all);
        return FAIL(FAULT_MEMORY, "out of memory: no stacks for %zu agents", n);
    }
    for (size_t i = 0; i < n; i++)
        init_fiber(all, i);
    *out = all;
    return OK;
}

fault fibers_open(size_t n, size_t n_bytes, struct fibers **out)
{
    fault f = fibers_open_with(GUARDS_MARKED, n, n_bytes, out);
    if (!f)
        return OK;
    fault_drop(f);
    return fibers_open_with(2 * n <= MOST_MAPS ? GUARDS_MAPPED : GUARDS_CHECKED, n, n_bytes, out);
}

struct fiber *fibers_at(struct fibers *all, size_t i)
{
    return &all->fibers[i];
}

void fibers_close(struct fibers *all)
{
    if (!all)
        return;
#ifdef TSAN
    for (size_t i = 0; i < all->n; i++)
        __tsan_destroy_fiber(all->fibers[i].tsan);
#endif
#ifdef ASAN /* frames of a parked program would be found again by the program that gets this memory next */
    __asan_unpoison_memory_region(all->memory, all->n * all->each_bytes);
#endif
    munmap(all->memory, all->n * all->each_bytes);
    free(all);
}
