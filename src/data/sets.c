/* sets.c - every data set one may name, with its settings and its loader. */
#include "data/sets.h"

#include "data/synthetic.h"

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

static fault load_known(const struct set_row *row, const void *settings, uint64_t seed, struct loaded *out)
{
    (void)settings, (void)seed;
    const struct progress nobody = {0};
    char data[PATH_ROOM], folder[PATH_ROOM];
    bool here;
    TRY(data_folder(data, sizeof data));
    TRY(known_look(row->known, data, folder, sizeof folder, &here));
    if (!here)
        return known_missing(row->known, data);
    out->classes = row->known->classes;
    return known_read(row->known, folder, false, &nobody, &out->train, &out->test);
}

static fault read_idx(const char *images, const char *labels, size_t classes, struct part *part)
{
    struct source pictures = {0}, names = {0};
    fault f = source_open(images, SOURCE_MOST, &pictures);
    if (!f)
        f = source_open(labels, SOURCE_MOST, &names);
    if (!f)
        f = idx_read(&pictures, &names, classes, part);
    source_close(&pictures);
    source_close(&names);
    return f;
}

static fault load_idx(const struct set_row *row, const void *settings, uint64_t seed, struct loaded *out)
{
    (void)row, (void)seed;
    const struct idx_settings *s = settings;
    out->classes = (size_t)s->classes;
    TRY(read_idx(s->train_images, s->train_labels, out->classes, &out->train));
    return read_idx(s->test_images, s->test_labels, out->classes, &out->test);
}

static fault read_cifar(const char *path, const struct cifar_binary_settings *s, struct part *part)
{
    struct source records = {0};
    TRY(source_open(path, SOURCE_MOST, &records));
    fault f = cifar_read(&records, (size_t)s->classes, s->coarse, part);
    source_close(&records);
    return f;
}

static fault load_cifar(const struct set_row *row, const void *settings, uint64_t seed, struct loaded *out)
{
    (void)row, (void)seed;
    const struct cifar_binary_settings *s = settings;
    out->classes = (size_t)s->classes;
    TRY(read_cifar(s->train, s, &out->train));
    return read_cifar(s->test, s, &out->test);
}

static fault load_blobs(const struct set_row *row, const void *settings, uint64_t seed, struct loaded *out)
{
    (void)row;
    const struct blobs_settings *s = settings;
    out->classes = (size_t)s->classes;
    return blobs_make(s, seed, &out->train, &out->test);
}

static fault load_spirals(const struct set_row *row, const void *settings, uint64_t seed, struct loaded *out)
{
    (void)row;
    const struct spirals_settings *s = settings;
    out->classes = (size_t)s->classes;
    return spirals_make(s, seed, &out->train, &out->test);
}

static fault load_images(const struct set_row *row, const void *settings, uint64_t seed, struct loaded *out)
{
    (void)row;
    const struct images_settings *s = settings;
    out->classes = (size_t)s->classes;
    return images_make(s, seed, &out->train, &out->test);
}

static const float fashion_mean[] = {0.28604f}, fashion_deviation[] = {0.35302f};
static const float cifar_10_mean[] = {0.4914f, 0.4822f, 0.4465f},
                   cifar_10_deviation[] = {0.2023f, 0.1994f, 0.2010f};
static const float cifar_100_mean[] = {0.5071f, 0.4867f, 0.4408f},
                   cifar_100_deviation[] = {0.2675f, 0.2565f, 0.2761f};

static const struct set_row fashion_row = {load_known, &known_fashion_mnist, fashion_mean, fashion_deviation};
static const struct set_row cifar_10_row = {load_known, &known_cifar_10, cifar_10_mean, cifar_10_deviation};
static const struct set_row cifar_100_row = {load_known, &known_cifar_100, cifar_100_mean,
                                             cifar_100_deviation};
static const struct set_row idx_row = {.load = load_idx}, cifar_binary_row = {.load = load_cifar};
static const struct set_row blobs_row = {.load = load_blobs}, spirals_row = {.load = load_spirals};
static const struct set_row images_row = {.load = load_images};

#define FILE_ROW(type, member, text)                                                                         \
    {                                                                                                        \
        .name = #member, .kind = FIELD_TEXT, .offset = offsetof(struct type, member), .help = text           \
    }
#define CLASSES_ROW(type)                                                                                    \
    {                                                                                                        \
        .name = "classes", .kind = FIELD_INT, .offset = offsetof(struct type, classes), .fallback = "10",    \
        .min = 1, .max = 256, .help = "classes; every label is below"                                        \
    }

static const struct field idx_fields[] = {
    FILE_ROW(idx_settings, train_images, "IDX file of the training pictures, plain or compressed (.gz, .xz)"),
    FILE_ROW(idx_settings, train_labels, "IDX file of their labels"),
    FILE_ROW(idx_settings, test_images, "IDX file of the test pictures"),
    FILE_ROW(idx_settings, test_labels, "IDX file of their labels"),
    CLASSES_ROW(idx_settings),
};
static const struct field cifar_binary_fields[] = {
    FILE_ROW(cifar_binary_settings, train, "file of the training records, plain or compressed (.gz, .xz)"),
    FILE_ROW(cifar_binary_settings, test, "file of the test records"),
    CLASSES_ROW(cifar_binary_settings),
    {.name = "coarse",
     .kind = FIELD_FLAG,
     .offset = offsetof(struct cifar_binary_settings, coarse),
     .fallback = "false",
     .help = "a coarse label stands before the label, as in CIFAR-100"},
};

#define WITH(rows, type) .fields = rows, .n_fields = COUNT(rows), .size = sizeof(struct type)

static const struct kind set_kinds[] = {
    {FASHION_MNIST_IS, .row = &fashion_row},
    {CIFAR_10_IS, .row = &cifar_10_row},
    {CIFAR_100_IS, .row = &cifar_100_row},
    {"idx", "pictures and labels in IDX files of one's own", WITH(idx_fields, idx_settings), .row = &idx_row},
    {"cifar-binary", "pictures of 32 x 32 in CIFAR's binary layout",
     WITH(cifar_binary_fields, cifar_binary_settings), .row = &cifar_binary_row},
    {"blobs", "made up: a cloud of points for each class", WITH(blobs_fields, blobs_settings),
     .row = &blobs_row},
    {"spirals", "made up: an arm of a spiral for each class", WITH(spirals_fields, spirals_settings),
     .row = &spirals_row},
    {"images", "made up: a smooth pattern under noise for each class", WITH(images_fields, images_settings),
     .row = &images_row},
};

const struct kinds data_set_kinds = {set_kinds, COUNT(set_kinds)};
