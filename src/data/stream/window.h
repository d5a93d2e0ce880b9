/* window.h - the bays of a stream, and what its files share. All of it is under the stream's lock. */
#ifndef VECHE_DATA_STREAM_WINDOW_H
#define VECHE_DATA_STREAM_WINDOW_H

#include <pthread.h>

#include "data/stream/stream.h"

#define NO_BAY    SIZE_MAX
#define NO_COURSE SIZE_MAX

enum { READERS = 4, MOST_RANGES = 8 };

struct bay {
    enum bay_state { BAY_FREE, BAY_WANTED, BAY_READY } state;
    bool is_test;
    bool is_stale; /* nobody wants its samples any more, but they are being read */
    size_t n;
    uint32_t *samples;    /* [at_once], borrowed: of the set, in the order of the picks */
    uint64_t *order;      /* [at_once], borrowed: where on disk << 32 | which of them, rising */
    uint8_t *bytes;       /* [at_once] samples, borrowed */
    size_t begun, done;   /* of them, in the order of the disk: given to readers; read */
    unsigned holders;     /* and those who wait for it */
    size_t to_come;       /* holds that exams are going to make of it: it stays for them */
    size_t course;        /* whose batch it is; NO_COURSE: a piece of an exam, or not foreseen */
    uint64_t number;      /* of the batch, or of the piece since the stream was opened */
    size_t before, after; /* in the list it is in */
    fault trouble;        /* owned: why its samples could not be read */
};

struct bay_list { /* the free ones; those that readers have work with */
    size_t first, last;
};

struct course {        /* what an agent will hold */
    struct feed feed;  /* owned: a copy */
    uint64_t expected; /* batches before it were announced */
    uint64_t next;     /* the first that is in no bay yet */
    size_t n_bays;     /* that hold batches of it, or are to */
};

struct range { /* what an exam will hold */
    bool is_test;
    size_t first, end, piece, at;
    size_t times; /* that it is gone through, this one included */
};

struct stream {
    pthread_mutex_t lock;
    pthread_cond_t work, news;   /* readers wait for work; who wants samples for news of a bay */
    struct on_disk from[2];      /* owned: training, test */
    size_t one, at_once, n_bays; /* bytes of a sample; samples in a bay */
    struct block memory;         /* owned: the window */
    struct bay *bays;            /* owned, as all pointers below */
    uint64_t *keys;              /* [n_bays]: of what is in each; 0: it is not to be found */
    uint32_t *samples;
    uint64_t *order;
    struct pick *room; /* [at_once]: what is being foreseen */
    struct bay_list free, wanted;
    struct course *courses;
    size_t n_courses;
    struct range ranges[MOST_RANGES]; /* oldest first */
    size_t n_ranges;
    size_t n_without_course;    /* bays in use that are no course's */
    uint64_t pieces;            /* of exams that were foreseen */
    size_t n_held;              /* bays with holders whose samples are there */
    double patience_s, moved_s; /* the last time that a bay became ready or was let go */
    size_t n_bytes;             /* of samples in bays */
    struct stream_counts counts;
    pthread_t readers[READERS];
    size_t n_readers, n_running;
    bool must_end;
};

/* window.c: these samples' bay, or NO_BAY. */
size_t window_find(const struct stream *s, bool is_test, const struct pick *picks, size_t n);
/* A free bay, out of its list; NO_BAY: there is none. */
size_t window_take_free(struct stream *s);
/* A free bay, or else the one that nobody holds and whose samples are needed last. */
size_t window_take(struct stream *s);
/* The bay that was taken is to have these samples, of this course; they are read before all others if it is urgent. */
void window_want(struct stream *s, size_t bay, bool is_test, const struct pick *picks, size_t n,
                 size_t course, uint64_t number, bool is_urgent);
void window_hurry(struct stream *s, size_t bay);
/* Nobody holds it: it is free, at the latest when it is read. */
void window_drop(struct stream *s, size_t bay);
/* A reader takes some samples of a wanted bay; a reader has read them. */
size_t window_begin(struct stream *s, size_t bay, struct wish *wishes, size_t most);
void window_end(struct stream *s, size_t bay, size_t n, fault f);

/* ahead.c: names the samples of the next bay that will be needed; false: there is no room, or nothing is known. */
bool ahead_foresee(struct stream *s);
/* These were not waited for: if they are the next piece of an exam, it need not be read again. */
void ahead_pass(struct stream *s, bool is_test, const struct pick *picks, size_t n);
/* Lessons come next: nothing more is read for exams. */
void ahead_forget_exams(struct stream *s);
void *ahead_read(void *stream); /* a reader's life */

#endif
