/* data.h - samples, and lists of which to take next.
 *
 *   files -> struct samples (labels; bytes to be held) -> struct feed (an agent's share, in random order) -> struct pick[]
 *
 * A pick says which sample, whether mirrored and by how much shifted; the engine turns picks into numbers, so the
 * same list gives the same batch on every engine. A pixel outside the picture is a zero byte *before* normalising.
 *
 * The bytes of samples lie in memory, or stay on disk and are read ahead of need into a window of bounded size (stream/stream.h).
 * Engines see no difference: they hold the samples of their picks and let them go.
 *
 *   samples_hold(s, picks, n, &held) -> samples_bytes(s, &held, i, picks[i]) for each i < n -> samples_let_go(s, &held)
 */
#ifndef VECHE_DATA_DATA_H
#define VECHE_DATA_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/fault.h"
#include "experiment/experiment.h"

enum { MOST_CHANNELS = 16 };

/* What the bytes of a sample are: [c][h][w] pixels, a byte each. Of another kind (floats, sparse rows) are samples whose bytes mean
 * something else; they are held and let go in the same way, and an engine refuses kinds that it does not know. */
enum sample_kind { SAMPLES_PICTURES };

/* The most samples that anybody holds at once, or a batch where that is more. */
enum { SAMPLES_AT_ONCE = 64 };

struct samples {
    enum sample_kind kind;
    size_t n;
    size_t c, h, w; /* channels, rows, columns; a vector of features is c x 1 x 1 */
    size_t classes;
    const uint8_t *pixels;  /* [n][c][h][w], borrowed from the dataset; NULL: they are streamed */
    struct stream *stream;  /* borrowed from the dataset; NULL: they lie in memory */
    bool is_test;           /* of the two that a stream has */
    const uint16_t *labels; /* [n], each < classes */
    float mean[MOST_CHANNELS], deviation[MOST_CHANNELS]; /* x = (byte / 255 - mean) / deviation */
    /* Training samples of the split `files`, else NULL: those of agent i are [file_first[i], file_first[i + 1]).
     * Borrowed from the dataset. */
    const size_t *file_first;
};

static inline size_t samples_one(const struct samples *s) /* bytes of a sample */
{
    return s->c * s->h * s->w;
}

struct pick {
    uint32_t sample;
    int8_t flip;   /* 1: mirrored left to right                                          */
    int8_t dy, dx; /* pixel (y, x) of the batch is pixel (y + dy, x + dx) of the (mirrored) sample, or zero */
};

/* The bytes of the picks' samples, which stay where they are until they are let go. */
struct held {
    const uint8_t *bytes;
    bool is_packed; /* they lie in the order of the picks; else all of the set, each in its place */
    const uint32_t *samples; /* which they are, where they are packed */
    size_t bay, course;      /* the stream's, as the batch's number */
    uint64_t number;
};

static inline const uint8_t *samples_bytes(const struct samples *s, const struct held *h, size_t i,
                                           struct pick p)
{
    return h->bytes + (h->is_packed ? i : p.sample) * samples_one(s);
}

/* Of samples that are held those from pick `first` on; it is the whole that is let go. */
static inline struct held samples_held_from(const struct samples *s, const struct held *h, size_t first)
{
    struct held some = *h;
    if (some.is_packed) {
        some.bytes += first * samples_one(s);
        some.samples += first;
    }
    return some;
}

/* At most a batch, or SAMPLES_AT_ONCE. Streamed samples that are not there yet are waited for, which may end in a fault: the
 * disk is too slow, or the file is not what it was. Whoever holds some and wants more must let go of some first unless
 * they are fewer than samples_most_held. From any thread. */
fault samples_hold(const struct samples *s, const struct pick *picks, size_t n, struct held *out);
void samples_let_go(const struct samples *s, const struct held *h);
/* The batch that the same feed gives after one that was held is held too, if it is there already and there is room to spare; else
 * false. */
bool samples_hold_next(const struct samples *s, const struct held *before, struct held *out);
/* So many holds fit at a time: 1 or more. */
size_t samples_most_held(const struct samples *s);

/* Soon [first, first + n) are held, `piece` at a time and in this order: they may be read ahead. */
void samples_expect(const struct samples *s, size_t first, size_t n, size_t piece);

/* From now on what this feed of training samples gives is read ahead. Its share must outlive the dataset. */
struct feed;
fault samples_follow(const struct samples *s, struct feed *f);

struct dataset {
    struct samples train, test;
    struct block memory;   /* owned: labels of both, and pixels that are not streamed */
    struct stream *stream; /* owned, or NULL */
    size_t *file_first;    /* owned, or NULL */
};

struct sample_shape {
    size_t c, h, w, classes;
};

/* Opens the set an experiment asks for, with its normalisation and limits. Missing files are a fault that says which
 * command fetches them. */
fault dataset_open(const struct data_settings *settings, uint64_t seed, struct dataset **out);
/* The same for a process that hosts one agent: with the split `files` only that agent's training file is opened, and
 * the others' shares are empty. With any other split, or with only_agent == -1, it is dataset_open. */
fault dataset_open_for(const struct data_settings *settings, uint64_t seed, int64_t only_agent,
                       struct dataset **out);
void dataset_close(struct dataset *d);

/* What can be known to be wrong with data.stream before the data are opened; the same of its window, once it is known what samples
 * look like. */
fault dataset_check(const struct data_settings *settings);
double dataset_window_mb(const struct data_settings *settings); /* as it is written, or what is usual */
fault dataset_check_window(const struct data_settings *settings, const struct sample_shape *shape);
/* How long samples on disk are waited for; else a minute. */
void dataset_set_patience(struct dataset *d, double seconds);
/* For people: what streamed samples take of memory; nothing where they are not streamed. */
void dataset_describe(const struct dataset *d, char *text, size_t n);

/* What samples of the set look like; the files of fashion-mnist and the CIFAR sets need not be here for that. */
fault dataset_shape(const struct data_settings *settings, struct sample_shape *out);

/* Who learns from which training samples: agent i from samples[first[i]] .. samples[first[i + 1] - 1], in rising order.
 * Shares cover the set and never overlap, except those of `replacement`; each has one sample or more, except those of
 * other agents' files after dataset_open_for. */
struct split {
    uint32_t *samples; /* owned: indices into the training samples */
    size_t *first;     /* owned: [n_agents + 1]                    */
    size_t n_agents;
};

/* What can be known to be wrong with data.split before the data are opened: the length of its lists, say. */
fault split_check(const struct data_settings *d, size_t n_agents);

/* `speeds` of all agents are read by `proportional` only, and may be NULL for any other kind. Follows from the seed. */
fault split_make(const struct data_settings *d, const struct samples *train, size_t n_agents,
                 const double *speeds, uint64_t seed, struct split *out);
void split_release(struct split *s);

/* For a process that hosts one agent: keeps of the training samples only that agent's share, in its order, and gives
 * the others' memory back. The agent's share is then 0 .. n - 1 of what is kept; others' shares keep their lengths but
 * name no samples any more. Normalisation stays. An agent beyond those of the split keeps none. Pixels and labels move,
 * so nobody may have borrowed them yet. On a fault all is as it was. */
fault dataset_keep(struct dataset *d, struct split *s, size_t agent);

/* SHA-256 of shapes, classes, normalisation, labels and pixels: of the test samples, and of the training samples if
 * asked. Processes with the same digest see the same data. */
fault dataset_digest(const struct dataset *d, bool train_too, char hex[65]);
/* Of the training samples of one agent, with the split `files`. */
fault dataset_share_digest(const struct dataset *d, size_t agent, char hex[65]);

/* The splits one may name (KIND_SPLIT). */
extern const struct kinds split_kinds;

/* The data sets one may name (KIND_SET). */
extern const struct kinds data_set_kinds;

/* One agent's samples in the order in which it meets them: the epochs' random orders laid end to end, cut into
 * batches of equal size. A batch may reach from one epoch into the next; every sample is met once an epoch. */
struct feed {
    uint64_t seed;
    uint32_t agent;
    size_t batch;
    const uint32_t *share; /* borrowed: the agent's samples */
    size_t n_share;
    bool flip;
    int crop;
    uint32_t *order; /* owned: the share in the order of epoch `epoch` */
    uint64_t epoch;
    const struct samples *ahead; /* borrowed: streamed, and read ahead of it (samples_follow); else NULL */
    size_t course;               /* the stream's, then */
};

fault feed_init(struct feed *f, const struct data_settings *settings, uint64_t seed, uint32_t agent,
                const uint32_t *share, size_t n_share);
/* Another one that gives the same batches, and is not followed. */
fault feed_copy(const struct feed *f, struct feed *out);
void feed_release(struct feed *f);
/* The batch of round k (from 0), whatever was asked before: n = settings->batch picks. Allocates nothing. Where the feed is
 * followed, the caller is going to hold them. */
void feed_batch(struct feed *f, uint64_t k, struct pick *picks);
/* Epochs that lie behind after k rounds: k * batch / n_share. */
double feed_epochs(const struct feed *f, uint64_t k);

#endif
