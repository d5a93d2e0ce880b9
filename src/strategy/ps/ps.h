/* ps.h - parameter servers: what their files share.
 *
 *   members:  workers 0 .. n-1 | servers | their standbys | nodes of the tree, the lowest level first
 *
 * Workers, and nodes for those below them, call the servers (call.h) with a gradient and are answered with
 * parameters; servers and nodes are services.
 */
#ifndef VECHE_STRATEGY_PS_PS_H
#define VECHE_STRATEGY_PS_PS_H

#include "strategy/agent.h"

enum ps_mode { PS_SYNC, PS_ASYNC, PS_SSP };

struct ps { /* what parameter servers do: by the settings of `ps`, or of `downpour` */
    int mode;
    int64_t staleness;
    bool staleness_aware;
    int64_t servers, tree, push_every, pull_every, replicate_every;
};

/* Fields that `ps` and `downpour` have alike. */
#define SERVERS_FIELD(owner) INT_FIELD(owner, servers, "1", 1, 1e4, "servers, each for its part of the parameters")
#define REPLICATE_EVERY_FIELD(owner)                                                                         \
    INT_FIELD(owner, replicate_every, "0", 0, 1e9, "updates from one copy for a server's standby to the next; 0: no standbys")

#define ROW_SUM ROW_KEPT /* of the gradients of those below a node, or of the rounds since the last push */

/* What a letter asks for and says. */
enum ps_what {
    PS_PUSHES = 1 << 0, /* a gradient                                           */
    PS_PULLS = 1 << 1,  /* wants parameters                                     */
    PS_BYE = 1 << 2,    /* has done all its rounds; answered when all have      */
    PS_LATE = 1 << 3,   /* answer: the others had gone on, the gradient did not count */
};

struct letter { /* as call.h says: a head, and numbers of 64 bits */
    struct call_head head;
    uint64_t round;   /* of the gradient; of the parameters                                 */
    uint64_t clock;   /* pushes of this worker, this one included                           */
    uint64_t version; /* updates in the parameters: when they were last pulled; now         */
    uint64_t n;       /* asked: workers whose gradients are summed; answered: the staleness */
};

/* One who asks: a worker, or a node of the tree. */
struct ps_client {
    uint64_t clock;    /* its pushes                              */
    uint64_t round;    /* of the parameters it pulled             */
    uint64_t n_summed; /* gradients since its last push           */
    bool is_back;      /* after a crash                           */
    bool skips_tree;   /* its node is gone: it asks the servers   */
    bool others_go_on; /* it has lost a server, the rest have not */
    struct ps_shard {  /* a part of the parameters, and who serves it */
        struct call_line line;
        size_t first, end;
        uint64_t version;  /* when it was last pulled */
        struct letter ask; /* the last                */
    } * shards;            /* [n_servers] */
    struct ps_shard node;  /* of all, while it asks a node */
};

/* One who answers: a server, its standby, a node of the tree. */
struct ps_helper {
    struct agent *agent; /* borrowed */
    struct service service;
    struct ps_child {
        struct letter ask; /* its last */
        bool late;         /* its gradient did not count */
        uint64_t stale;
        uint64_t rounds; /* behind it, as its last letter said; ROUNDS_UNKNOWN */
    } * children;        /* [n_members] */
    struct term *terms;  /* [n_members] */
    size_t first, end;   /* its floats */
    bool is_node, is_back;
    bool listens_to_all; /* the one it listened to did not come; until the next update */
    uint64_t version;    /* updates in its parameters */
    uint64_t ended;      /* async, ssp: rounds of all workers, as their letters say */
};

#define ROUNDS_UNKNOWN UINT64_MAX

struct ps_shared {
    struct ps settings;
    size_t n_workers, n_servers, first_node, n_members;
    bool has_standbys;
    struct ps_client *clients; /* owned: [n_members] */
    struct ps_helper *helpers; /* owned: of member n_workers + i */
    /* owned: what their pointers point to */
    struct ps_shard *shards;
    struct ps_child *children;
    struct term *terms;
};

static inline struct ps_shared *ps_of(const struct agent *a)
{
    return a->stage->shared;
}

static inline const struct ps *ps_settings(const struct ps_helper *h)
{
    return &ps_of(h->agent)->settings;
}

static inline size_t ps_n_members(const struct ps_helper *h)
{
    return h->service.n;
}

static inline struct visitor *ps_visitor(const struct ps_helper *h, size_t child)
{
    return &h->service.visitors[child];
}

/* The gradient of a child; of ps_n_members: what has just come. */
static inline struct parcel *ps_parcel(const struct ps_helper *h, size_t child)
{
    return &h->agent->parcels[child];
}

static inline struct span ps_span(const struct ps_helper *h, row_set rows)
{
    return (struct span){rows, h->first, h->end};
}

/* ps.c: what the strategies on parameter servers have in common. */
fault ps_run(struct agent *a);
/* A step, where it is time for one; a node asks those above it. */
fault ps_update(struct ps_helper *h);

/* ask.c. A fault about peers: no server answers any more. */
/* Before a worker's first round of this life: it is back after a crash, or goes on from a checkpoint. */
fault ps_begin(struct agent *a);
/* A worker pushes its gradient, pulls parameters, or says goodbye. */
fault ps_call_servers(struct agent *a, uint32_t what);
/* After it, in sync mode: the others may have gone on meanwhile. */
void ps_catch_up(struct agent *a);
/* A node's call, for so many workers. */
fault ps_ask_above(struct ps_helper *h, uint32_t what, uint64_t round, uint64_t n_workers);
/* What a letter from this member says can be. */
fault ps_check_letter(const struct agent *a, size_t from, const struct letter *x);
/* The row gradients travel in: sums, of a node or of a worker that does not push every round, are kept. */
enum row ps_row_of(const struct ps_shared *s, size_t member);

/* server.c */
fault ps_serve(struct agent *a);
/* The gradient of a child is applied, or will never be; those of all children. */
void ps_let_go(struct ps_helper *h, size_t child);
void ps_let_all_go(struct ps_helper *h);
/* To the standby, where it is time for one. */
fault ps_send_copy(struct ps_helper *h);

/* members.c */
int64_t ps_helpers(const struct ps *s, int64_t agents);
fault ps_open(const struct stage *stage, struct ps settings, void **shared);
void ps_close(void *shared);
fault ps_rejoin(struct agent *a);
/* The node a worker or node asks, or NO_NODE: the servers themselves. */
size_t ps_parent(const struct ps_shared *s, size_t member);
#define NO_NODE ((size_t)-1)

#endif
