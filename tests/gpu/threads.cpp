/* threads.cpp - a block of a pretended GPU: each of its threads is a fiber. A warp runs on to the block's next barrier before
 * another has its turn, the first warp first, or the last one where the environment has PRETENDED_GPU_ORDER=backward;
 * its lanes take turns where they meet. So warps are as far apart as barriers let them, and where one is missing things
 * go wrong. Copies to shared memory happen as soon as they can, or backward as late. */
#include "threads.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
#include <vector>

#include "language.h"

enum { MOST_THREADS = 1024, STACK = 64 << 10, APART = 320, PAGE = 4096, SHARED = 256 << 10, BEYOND = 1 << 10, UNTOUCHED = 0xa5 };

alignas(256) char gpu_shared_memory[SHARED];
gpu_index threadIdx, blockIdx, blockDim, gridDim;

namespace {

enum state { RUNS, AT_BARRIER, DONE };

struct copy {
    char *to;
    const void *from; /* NULL: zeros */
    int n_bytes;
};

struct fiber {
    ucontext_t beginning;
    void *at[5]; /* where it goes on: __builtin_setjmp, which asks the C library nothing */
    char *stack; /* owned, to the end */
    bool begun;
    state now;
    std::vector<copy> copies; /* that have not happened yet */
};

struct warp {
    gpu_words in, out;
    int arrived;
    unsigned generation;
};

fiber fibers[MOST_THREADS];
warp warps[MOST_THREADS / GPU_LANES];
void *outside[5];
int current, n_threads, n_live, n_arrived, n_idle;
bool backward;
unsigned generation;
const std::function<void()> *work;

[[gnu::noinline]] void enter(int i)
{
    fiber &f = fibers[i];
    current = i;
    threadIdx = {(unsigned)i, 0, 0};
    if (f.begun)
        __builtin_longjmp(f.at, 1);
    f.begun = true;
    setcontext(&f.beginning);
}

/* The next after i of n, round and round. */
int after(int i, int n)
{
    return (i + (backward ? n - 1 : 1)) % n;
}

/* Who runs next: of this warp if it can, else of the next one that can; -1: nobody. */
int next_thread()
{
    int n_warps = (n_threads + GPU_LANES - 1) / GPU_LANES, w = current / GPU_LANES, lane = current % GPU_LANES;
    for (int i = 0; i < n_warps; i++, w = after(w, n_warps))
        for (int k = 0; k < GPU_LANES; k++) {
            lane = after(lane, GPU_LANES);
            int thread = w * GPU_LANES + lane;
            if (thread < n_threads && fibers[thread].now == RUNS)
                return thread;
        }
    return -1;
}

[[gnu::noinline]] void leave()
{
    __builtin_longjmp(outside, 1);
}

/* Comes back when it is this thread's turn again. */
void give_way()
{
    int next = next_thread();
    if (next != current && __builtin_setjmp(fibers[current].at) == 0) {
        if (next < 0)
            leave();
        enter(next);
    }
}

void wait_while(const unsigned &now, unsigned then)
{
    while (now == then) {
        if (++n_idle > 4 * MOST_THREADS) {
            std::fprintf(stderr, "a barrier that not all threads reach\n");
            std::abort();
        }
        give_way();
    }
}

void open_barrier_if_all_came()
{
    if (n_arrived == 0 || n_arrived < n_live)
        return;
    n_arrived = n_idle = 0;
    generation++;
    for (int i = 0; i < n_threads; i++)
        if (fibers[i].now == AT_BARRIER)
            fibers[i].now = RUNS;
}

void live()
{
    for (;;) {
        (*work)();
        if (!fibers[current].copies.empty()) {
            std::fprintf(stderr, "copies that nobody waits for\n");
            std::abort();
        }
        fibers[current].now = DONE;
        n_live--;
        n_idle = 0;
        open_barrier_if_all_came();
        give_way();
    }
}

/* Stacks begin at different places of a page: all at the same one would fall into the same few sets of the cache. */
void make_fiber(fiber &f)
{
    int i = (int)(&f - fibers);
    f.stack = (char *)std::malloc(STACK + PAGE);
    getcontext(&f.beginning);
    f.beginning.uc_stack.ss_sp = f.stack + i * APART % PAGE;
    f.beginning.uc_stack.ss_size = STACK;
    f.beginning.uc_link = nullptr;
    makecontext(&f.beginning, live, 0);
}

}

void __syncthreads()
{
    unsigned then = generation;
    fibers[current].now = AT_BARRIER;
    n_arrived++;
    open_barrier_if_all_came();
    wait_while(generation, then);
}

const unsigned *gpu_together(const unsigned *words, int n, gpu_answer *answer)
{
    warp &w = warps[current / GPU_LANES];
    int lane = current % GPU_LANES;
    unsigned then = w.generation;
    for (int i = 0; i < n; i++)
        w.in.of[lane][i] = words[i];
    if (++w.arrived == GPU_LANES) {
        answer(w.in, w.out);
        w.arrived = n_idle = 0;
        w.generation++;
    }
    wait_while(w.generation, then);
    return w.out.of[lane];
}

static void make_copy(const copy &c)
{
    if (c.from)
        std::memcpy(c.to, c.from, c.n_bytes);
    else
        std::memset(c.to, 0, c.n_bytes);
}

void gpu_start_copy(char *to, const void *from, int n_bytes)
{
    if (backward)
        fibers[current].copies.push_back({to, from, n_bytes});
    else
        make_copy({to, from, n_bytes});
}

void gpu_wait_for_copies()
{
    for (const copy &c : fibers[current].copies)
        make_copy(c);
    fibers[current].copies.clear();
}

/* What lies behind the block's shared memory must not be written to. */
static void check_beyond(const char *beyond)
{
    for (int i = 0; i < BEYOND; i++)
        if (beyond[i] != (char)UNTOUCHED) {
            std::fprintf(stderr, "a block that writes beyond its shared memory\n");
            std::abort();
        }
}

void run_block(int threads, size_t shared, const std::function<void()> &of_thread)
{
    std::memset(gpu_shared_memory + shared, UNTOUCHED, BEYOND);
    const char *order = std::getenv("PRETENDED_GPU_ORDER");
    backward = order && !std::strcmp(order, "backward");
    n_threads = n_live = threads;
    n_arrived = n_idle = 0;
    work = &of_thread;
    for (int i = 0; i < threads; i++) {
        if (!fibers[i].stack)
            make_fiber(fibers[i]);
        fibers[i].now = RUNS;
    }
    if (__builtin_setjmp(outside) == 0)
        enter(backward ? threads - 1 : 0);
    check_beyond(gpu_shared_memory + shared);
}
