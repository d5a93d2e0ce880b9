/* join.c - from a process to a member: the machine's cores are shared out, and all hear who is where and
 * what they can see of each other. Both by gatherings (world.h), before the first message. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/encode.h"
#include "base/pool.h"
#include "world/far/inside.h"

/* ---- cores ---- */

struct cores { /* that a rank may use */
    char host[WORLD_HOST];
    cpu_set_t set;
    uint32_t n;
};

static void encode_cores(struct encoder *e, const struct cores *c)
{
    encode_text(e, c->host);
    encode_u32(e, c->n);
    for (size_t i = 0; i < CPU_SETSIZE; i += 32) {
        uint32_t word = 0;
        for (size_t j = 0; j < 32; j++)
            word |= (uint32_t)(CPU_ISSET(i + j, &c->set) != 0) << j;
        encode_u32(e, word);
    }
}

static void decode_cores(struct decoder *d, struct cores *c)
{
    CPU_ZERO(&c->set);
    decode_text(d, c->host, sizeof c->host);
    c->n = decode_u32(d);
    for (size_t i = 0; i < CPU_SETSIZE; i += 32) {
        uint32_t word = decode_u32(d);
        for (size_t j = 0; j < 32; j++)
            if (word >> j & 1)
                CPU_SET(i + j, &c->set);
    }
}

static void own_cores(struct cores *c)
{
    c->n = (uint32_t)pool_cores();
    world_host(c->host);
    if (sched_getaffinity(0, sizeof c->set, &c->set) != 0)
        CPU_ZERO(&c->set);
}

/* Ranks of one machine may have the same cores or each its own: what is not shared is mine, and what is
 * shared is shared out. */
static fault share_out(struct ranks *ranks, const struct cores *mine, const unsigned char *all,
                       const size_t *lengths)
{
    cpu_set_t together;
    size_t n_here = 0, sum = 0;
    CPU_ZERO(&together);
    for (size_t i = 0; i < ranks->n; all += lengths[i++]) {
        struct cores theirs;
        struct decoder d = decode_from(all, lengths[i]);
        if (decode_u32(&d) != FAR_PROTOCOL)
            return FAIL(FAULT_USAGE,
                        "rank %zu is of another version of veche than this one: all ranks must run the same",
                        i);
        decode_cores(&d, &theirs);
        if (!decode_is_whole(&d))
            return FAIL(FAULT_PEER, "what rank %zu says before the start cannot be read", i);
        if (strcmp(theirs.host, mine->host) != 0)
            continue;
        CPU_OR(&together, &together, &theirs.set);
        sum += theirs.n;
        n_here++;
        ranks->here += i < ranks->self;
    }
    size_t n_all = CPU_COUNT(&together) ? (size_t)CPU_COUNT(&together) : mine->n;
    size_t own = sum <= n_all ? mine->n : n_all / n_here;
    ranks->threads = own > 1 ? (int)own : 1;
    ranks->outnumber_cores = n_here > n_all;
    return OK;
}

fault far_join(struct ranks *ranks)
{
    const double patience_s = 60; /* that of the experiment is not known yet */
    unsigned char bytes[WORLD_HOST + CPU_SETSIZE / 8 + 32], *all = NULL;
    struct encoder e = encode_into(bytes, sizeof bytes);
    struct cores mine;
    size_t *lengths = calloc(ranks->n, sizeof *lengths);
    own_cores(&mine);
    encode_u32(&e, FAR_PROTOCOL);
    encode_cores(&e, &mine);
    fault f = lengths ? ranks->door->gather(ranks, bytes, e.n, patience_s, &all, lengths) : OUT_OF_MEMORY;
    if (!f)
        f = share_out(ranks, &mine, all, lengths);
    free(all);
    free(lengths);
    return f;
}

void far_furnish(const struct ranks *ranks, const struct experiment *e, size_t n_links,
                 struct engine_setup *setup)
{
    (void)n_links;
    setup->n_replicas = strategy_row(e)->meets_at_any_time ? 2 : 1;
    setup->n_spare = FAR_SPARE_ROWS;
    setup->rows_on_host = true;
    setup->device = ranks->here; /* ranks of one machine take its devices in turn */
    setup->threads = e->engine.threads ? (int)e->engine.threads : ranks->threads;
}

/* ---- meeting ---- */

enum { SEES_ROWS = 1, RINGS = 2 };

/* What comes from it is there when it comes, and not when a wire that is only pretended lets it. */
static bool is_wireless(const struct far *w, size_t from)
{
    struct wire wire = network_wire(&w->stage->experiment->network, from, w->link.self);
    return wire.latency_s <= 0 && wire.bytes_per_s <= 0;
}

/* What a member says of itself to all. */
struct word {
    char host[WORLD_HOST];
    uint64_t pid;
    char processor[64];
    struct address rows, bell;
};

static void encode_address(struct encoder *e, const struct address *s)
{
    encode_text(e, s->boot);
    encode_u64(e, (uint64_t)s->pid);
    encode_u64(e, (uint64_t)s->file);
    encode_u64(e, s->device);
    encode_u64(e, s->inode);
    encode_u64(e, s->n_bytes);
}

static void decode_address(struct decoder *d, struct address *s)
{
    decode_text(d, s->boot, sizeof s->boot);
    s->pid = (int64_t)decode_u64(d);
    s->file = (int64_t)decode_u64(d);
    s->device = decode_u64(d);
    s->inode = decode_u64(d);
    s->n_bytes = decode_u64(d);
}

static struct word own_word(const struct far *w)
{
    struct word word = {
        .pid = (uint64_t)getpid(), .rows = address_of(w->engine->shared), .bell = address_of(&w->bell_memory)};
    world_host(word.host);
    engine_processor(w->engine, word.processor, sizeof word.processor);
    return word;
}

static fault gather_words(struct far *w, double patience_s, struct word *words)
{
    unsigned char bytes[1024], *all = NULL, *at;
    struct encoder e = encode_into(bytes, sizeof bytes);
    struct word mine = own_word(w);
    size_t *lengths = calloc(w->n, sizeof *lengths);
    encode_text(&e, mine.host);
    encode_u64(&e, mine.pid);
    encode_text(&e, mine.processor);
    encode_address(&e, &mine.rows);
    encode_address(&e, &mine.bell);
    fault f =
        lengths ? w->ranks.door->gather(&w->ranks, bytes, e.n, patience_s, &all, lengths) : OUT_OF_MEMORY;
    at = all;
    for (size_t i = 0; !f && i < w->n; at += lengths[i++]) {
        struct decoder d = decode_from(at, lengths[i]);
        decode_text(&d, words[i].host, sizeof words[i].host);
        words[i].pid = decode_u64(&d);
        decode_text(&d, words[i].processor, sizeof words[i].processor);
        decode_address(&d, &words[i].rows);
        decode_address(&d, &words[i].bell);
        if (!decode_is_whole(&d))
            f = FAIL(FAULT_PEER, "what rank %zu says before the start cannot be read", i);
    }
    free(all);
    free(lengths);
    return f;
}

/* Every rank tries to see the rows of all others on its machine and to reach their bells, and tells which it can:
 * a byte for each. */
static fault look_round(struct far *w, const struct word *words, double patience_s)
{
    unsigned char *seen = calloc(w->n, 1), *all = NULL;
    size_t *lengths = calloc(w->n, sizeof *lengths);
    const struct word *mine = &words[w->link.self];
    for (size_t i = 0; seen && i < w->n; i++) {
        struct peer *p = &w->peers[i];
        if (i != w->link.self) {
            p->rows = address_seen_from(&mine->rows, &words[i].rows, PROT_READ);
            p->bell = address_seen_from(&mine->bell, &words[i].bell, PROT_READ | PROT_WRITE);
        }
        seen[i] = (unsigned char)((p->rows ? SEES_ROWS : 0) | (p->bell ? RINGS : 0));
    }
    fault f = seen && lengths ? w->ranks.door->gather(&w->ranks, seen, w->n, patience_s, &all, lengths)
                              : OUT_OF_MEMORY;
    w->all_ring = true;
    for (size_t i = 0; !f && i < w->n; i++) {
        unsigned char sees_me = lengths[i] == w->n ? all[i * w->n + w->link.self] : 0;
        w->peers[i].sees_my_rows = sees_me & SEES_ROWS;
        w->all_ring &= i == w->link.self || (sees_me & RINGS && is_wireless(w, i));
    }
    free(all);
    free(seen);
    free(lengths);
    return f;
}

/* On this machine, and not in a container of its own, where numbers of processes say something else. */
static bool is_near(const struct word *mine, const struct word *theirs)
{
    return strcmp(mine->host, theirs->host) == 0 && (kill((pid_t)theirs->pid, 0) == 0 || errno == EPERM);
}

fault far_meet(struct far *w)
{
    double patience_s = patience_of(w);
    struct word *words = calloc(w->n, sizeof *words);
    fault f = words ? gather_words(w, patience_s, words) : OUT_OF_MEMORY;
    for (size_t i = 0; !f && i < w->n; i++) {
        struct peer *p = &w->peers[i];
        memcpy(p->host, words[i].host, sizeof p->host);
        memcpy(p->processor, words[i].processor, sizeof p->processor);
        p->pid = (int64_t)words[i].pid;
        p->process_is_near = is_near(&words[w->link.self], &words[i]);
        p->heard_s = clock_now_s();
    }
    if (!f)
        f = look_round(w, words, patience_s);
    free(words);
    return f;
}
