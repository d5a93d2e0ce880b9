/* ps.h - parameter servers: what their files share.
 *
 *   members:  workers 0 .. n-1 | servers | their standbys | nodes of the tree, the lowest level first
 *
 *   an exchange:  who asks    gradient rows, then a letter   -->   who answers
 *                             <--   parameter rows, then a letter
 *
 * The letter comes last, so whoever has read it finds the rows in its mail. Who asks numbers its exchanges; a
 * letter that gets no answer within patience is sent again without rows, and rows are sent again only when
 * asked for: nothing is applied twice because a message was lost, and nothing is waited for in vain.
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

/* The rows of settings that `ps` and `downpour` have alike, at these offsets. */
#define SERVERS_FIELD(at)                                                                                    \
    {                                                                                                        \
        .name = "servers", .kind = FIELD_INT, .offset = (at), .fallback = "1", .min = 1, .max = 1e4,         \
        .help = "servers, each for its part of the parameters"                                               \
    }
#define REPLICATE_EVERY_FIELD(at)                                                                            \
    {                                                                                                        \
        .name = "replicate_every", .kind = FIELD_INT, .offset = (at), .fallback = "0", .min = 0, .max = 1e9, \
        .help = "updates from one copy for a server's standby to the next; 0: no standbys"                   \
    }

#define ROW_SUM ROW_KEPT /* of the gradients of those below a node, or of the rounds since the last push */

/* Tags: never below a round, rows below letters, so that old rows can be forgotten by their number. */
#define PS_DOWN    (1ull << 62)             /* + exchange: parameters                       */
#define PS_UP      (PS_DOWN + (1ull << 60)) /* + exchange: gradients                        */
#define PS_REPLICA (PS_UP + (1ull << 60))   /* + version: parameters and slots of a shard   */
#define PS_ASK     (PS_REPLICA + (1ull << 60))
#define PS_ANSWER  (PS_ASK + 1)

enum letter_kind {
    LETTER_PUSHES = 1 << 0,  /* a gradient                                                  */
    LETTER_PULLS = 1 << 1,   /* wants parameters                                            */
    LETTER_BYE = 1 << 2,     /* has done all its rounds; answered when everybody has        */
    LETTER_ROWS = 1 << 3,    /* rows came with it                                           */
    LETTER_SENT = 1 << 4,    /* the other of the pair sent me here                          */
    LETTER_AGAIN = 1 << 5,   /* answer: the gradient is not here, send it again             */
    LETTER_MOVED = 1 << 6,   /* answer: the other of the pair serves                        */
    LETTER_LATE = 1 << 7,    /* answer: the others had gone on, your gradient did not count */
    LETTER_REPLICA = 1 << 8, /* of a pair: my shard as it is now                            */
    LETTER_YIELD = 1 << 9,   /* of a pair: I serve, you follow                              */
    LETTER_END = 1 << 10,    /* all is done                                                 */
};

struct letter {
    uint64_t kind;
    uint64_t number;  /* of the exchange                                                    */
    uint64_t round;   /* of the gradient; of the parameters                                 */
    uint64_t clock;   /* pushes of this worker, this one included                           */
    uint64_t version; /* updates in the parameters: when they were last pulled; now         */
    uint64_t n;       /* asked: workers whose gradients are summed; answered: the staleness */
};

/* One who asks: a worker, or a node of the tree. */
struct ps_client {
    uint64_t number;       /* of its last exchange                     */
    uint64_t clock;        /* its pushes                               */
    uint64_t round;        /* of the parameters it pulled              */
    uint64_t n_summed;     /* gradients since its last push            */
    bool is_back;          /* after a crash                            */
    bool skips_tree;       /* its node is gone: it asks the servers    */
    bool others_go_on;     /* it has lost a server, the rest have not  */
    struct ps_shard {      /* what it knows of each part of the parameters; of all, where it asks a node */
        size_t asked;      /* the member that answers: the server or its standby */
        uint64_t version;  /* when it was last pulled                            */
        struct letter ask; /* the last                                           */
        bool is_lost;      /* since then                                         */
        double lost_since;
    } * shards; /* [n_servers] */
};

/* What a helper knows of one that asks. */
struct ps_child {
    bool known;   /* expected, or has asked                                   */
    bool gone;    /* cannot be reached, which was noted                       */
    bool silent;  /* others waited for it in vain, which was noted            */
    bool waiting; /* for an answer                                            */
    bool pending; /* its gradient lies in the parcels                         */
    bool late;
    uint64_t stale;
    uint64_t n_again; /* times it has asked again */
    double since;     /* when it was last heard or answered */
    uint64_t rounds;  /* behind it, as its last letter said; ROUNDS_UNKNOWN */
    struct letter ask;
};

#define ROUNDS_UNKNOWN UINT64_MAX

/* One who answers: a server, its standby, a node of the tree. */
struct ps_helper {
    struct agent *agent;       /* borrowed */
    struct ps_child *children; /* [n_members] */
    struct term *terms;        /* [n_members] */
    size_t first, end;         /* its floats */
    size_t other;              /* of the pair; itself: there is none */
    bool is_node, leads, is_over, is_back;
    bool listens_to_all; /* the one it listened to did not come; until the next update */
    uint64_t version;    /* updates in its parameters */
    uint64_t ended;      /* async, ssp: rounds of all workers, as their letters say */
    bool is_awaited;     /* somebody waits for it, since then without a break */
    double awaited_since;
};

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

/* ps.c: what the strategies on parameter servers have in common. */
fault ps_run(struct agent *a);
fault ps_rejoin(struct agent *a);
int64_t ps_helpers(const struct ps *s, int64_t agents);
fault ps_open(const struct stage *stage, struct ps settings, void **shared);
void ps_close(void *shared);

/* tree.c: who asks whom. */
#define NO_NODE ((size_t)-1)
size_t ps_nodes(size_t n_workers, size_t fanout);
/* The node a worker or node asks, or NO_NODE: the servers themselves. */
size_t ps_parent(const struct ps_shared *s, size_t member);
/* Those that ask a node, or the servers (`member` is one of them): [*first, *end). */
void ps_children(const struct ps_shared *s, size_t member, size_t *first, size_t *end);

/* ask.c: asks all shards, or one's node, and waits for the answers; parameters that come are taken.
 * A fault about peers: nobody answers any more. */
fault ps_exchange(struct agent *a, struct letter ask, struct letter *answer);
/* The row gradients travel in: the sums of nodes and of workers that do not push every round are kept ones.
 */
enum row ps_row_of(const struct ps_shared *s, size_t member);

/* server.c */
fault ps_serve(struct agent *a);

#endif
