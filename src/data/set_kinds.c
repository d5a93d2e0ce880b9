/* set_kinds.c - every data set one may name, with its settings and its loader. */
#include "data/set_kinds.h"

#include "data/synthetic.h"

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

/* With `train` false the files of the training samples are not opened. */
static fault read_known(const struct known *known, bool train, struct loaded *out)
{
    const struct listener nobody = {0};
    char data[PATH_ROOM], folder[PATH_ROOM];
    bool here;
    TRY(data_folder(data, sizeof data));
    TRY(known_look(known, data, folder, sizeof folder, &here));
    if (!here)
        return known_missing(known, data);
    out->classes = known->classes;
    return known_read(known, folder, &nobody, train ? &out->train : NULL, &out->test);
}

static fault load_known(const struct set_row *row, const struct choice *set, uint64_t seed,
                        struct loaded *out)
{
    (void)set, (void)seed;
    return read_known(row->known, true, out);
}

static fault test_known(const struct set_row *row, const struct choice *set, struct loaded *out)
{
    (void)set;
    return read_known(row->known, false, out);
}

static fault scan_idx(const char *images, const struct source *names, size_t classes, struct intake *intake)
{
    struct scan s;
    TRY(scan_open(images, &s));
    fault f = idx_scan(&s, names, classes, intake);
    scan_close(&s, NULL);
    return f;
}

static fault read_idx(const char *images, const char *labels, size_t classes, struct intake *intake)
{
    struct source pictures = {0}, names = {0};
    fault f = intake->on_disk ? OK : source_open(images, SOURCE_MOST, &pictures);
    if (!f)
        f = source_open(labels, SOURCE_MOST, &names);
    if (!f)
        f = intake->on_disk ? scan_idx(images, &names, classes, intake)
                            : idx_read(&pictures, &names, classes, intake);
    source_close(&pictures);
    source_close(&names);
    return f;
}

static fault scan_cifar(const char *path, size_t classes, bool coarse, struct intake *intake)
{
    struct scan s;
    TRY(scan_open(path, &s));
    fault f = cifar_scan(&s, classes, coarse, intake);
    scan_close(&s, NULL);
    return f;
}

static fault read_cifar(const char *path, size_t classes, bool coarse, struct intake *intake)
{
    struct source records = {0};
    if (intake->on_disk)
        return scan_cifar(path, classes, coarse, intake);
    TRY(source_open(path, SOURCE_MOST, &records));
    fault f = cifar_read(&records, classes, coarse, intake);
    source_close(&records);
    return f;
}

static fault share_known(const struct set_row *row, const struct choice *set, const char *file,
                         const char *labels, struct intake *out)
{
    (void)set;
    const struct known *k = row->known;
    return k->layout == LAYOUT_IDX ? read_idx(file, labels, k->classes, out)
                                   : read_cifar(file, k->classes, k->layout == LAYOUT_CIFAR_COARSE, out);
}

/* A file of training samples is named exactly where the agents have none of their own. */
static fault check_training(const struct choice *set, const char *key, const char *path, bool agents_have)
{
    if (!path && !agents_have)
        return fail_at(set->place, "data.set: the key '%s' is missing (a file of the training samples)", key);
    if (path && agents_have)
        return fail_at(set->place,
                       "data.set: %s: each agent has its own file by the split 'files'; this one "
                       "would not be read",
                       key);
    return OK;
}

static fault test_of_idx(const struct choice *set, bool agents_have, struct loaded *out)
{
    const struct idx_settings *s = set->settings;
    TRY(check_training(set, "train_images", s->train_images, agents_have));
    TRY(check_training(set, "train_labels", s->train_labels, agents_have));
    out->classes = (size_t)s->classes;
    return read_idx(s->test_images, s->test_labels, out->classes, &out->test);
}

static fault load_idx(const struct set_row *row, const struct choice *set, uint64_t seed, struct loaded *out)
{
    (void)row, (void)seed;
    const struct idx_settings *s = set->settings;
    TRY(test_of_idx(set, false, out));
    return read_idx(s->train_images, s->train_labels, out->classes, &out->train);
}

static fault test_idx(const struct set_row *row, const struct choice *set, struct loaded *out)
{
    (void)row;
    return test_of_idx(set, true, out);
}

static fault share_idx(const struct set_row *row, const struct choice *set, const char *file,
                       const char *labels, struct intake *out)
{
    (void)row;
    return read_idx(file, labels, (size_t)((const struct idx_settings *)set->settings)->classes, out);
}

static fault test_of_cifar(const struct choice *set, bool agents_have, struct loaded *out)
{
    const struct cifar_binary_settings *s = set->settings;
    TRY(check_training(set, "train", s->train, agents_have));
    out->classes = (size_t)s->classes;
    return read_cifar(s->test, out->classes, s->coarse, &out->test);
}

static fault load_cifar(const struct set_row *row, const struct choice *set, uint64_t seed,
                        struct loaded *out)
{
    (void)row, (void)seed;
    const struct cifar_binary_settings *s = set->settings;
    TRY(test_of_cifar(set, false, out));
    return read_cifar(s->train, out->classes, s->coarse, &out->train);
}

static fault test_cifar(const struct set_row *row, const struct choice *set, struct loaded *out)
{
    (void)row;
    return test_of_cifar(set, true, out);
}

static fault share_cifar(const struct set_row *row, const struct choice *set, const char *file,
                         const char *labels, struct intake *out)
{
    (void)row, (void)labels;
    const struct cifar_binary_settings *s = set->settings;
    return read_cifar(file, (size_t)s->classes, s->coarse, out);
}

static fault load_blobs(const struct set_row *row, const struct choice *set, uint64_t seed,
                        struct loaded *out)
{
    (void)row;
    const struct blobs_settings *s = set->settings;
    out->classes = (size_t)s->classes;
    return blobs_make(s, seed, &out->train, &out->test);
}

static fault load_spirals(const struct set_row *row, const struct choice *set, uint64_t seed,
                          struct loaded *out)
{
    (void)row;
    const struct spirals_settings *s = set->settings;
    out->classes = (size_t)s->classes;
    return spirals_make(s, seed, &out->train, &out->test);
}

static fault load_images(const struct set_row *row, const struct choice *set, uint64_t seed,
                         struct loaded *out)
{
    (void)row;
    const struct images_settings *s = set->settings;
    out->classes = (size_t)s->classes;
    return images_make(s, seed, &out->train, &out->test);
}

static const float fashion_mean[] = {0.28604f}, fashion_deviation[] = {0.35302f};
static const float cifar_10_mean[] = {0.4914f, 0.4822f, 0.4465f},
                   cifar_10_deviation[] = {0.2023f, 0.1994f, 0.2010f};
static const float cifar_100_mean[] = {0.5071f, 0.4867f, 0.4408f},
                   cifar_100_deviation[] = {0.2675f, 0.2565f, 0.2761f};

#define FROM_FILES(name) .load = load_##name, .read_test = test_##name, .read_share = share_##name

static const struct set_row fashion_row = {FROM_FILES(known), .known = &known_fashion_mnist,
                                           .mean = fashion_mean, .deviation = fashion_deviation,
                                           .labels_apart = true};
static const struct set_row cifar_10_row = {FROM_FILES(known), .known = &known_cifar_10,
                                            .mean = cifar_10_mean, .deviation = cifar_10_deviation};
static const struct set_row cifar_100_row = {FROM_FILES(known), .known = &known_cifar_100,
                                             .mean = cifar_100_mean, .deviation = cifar_100_deviation};
static const struct set_row idx_row = {FROM_FILES(idx), .labels_apart = true},
                            cifar_binary_row = {FROM_FILES(cifar)};
static const struct set_row blobs_row = {.load = load_blobs}, spirals_row = {.load = load_spirals};
static const struct set_row images_row = {.load = load_images};

/* Training files are left out where each agent has its own. */
static const struct field idx_fields[] = {
    TEXT_FIELD(struct idx_settings, train_images, NULL,
               "IDX file of the training pictures, plain or compressed (.gz, .xz); not with data.split: files", .optional = true),
    TEXT_FIELD(struct idx_settings, train_labels, NULL, "IDX file of their labels", .optional = true),
    TEXT_FIELD(struct idx_settings, test_images, NULL, "IDX file of the test pictures"),
    TEXT_FIELD(struct idx_settings, test_labels, NULL, "IDX file of their labels"),
    INT_FIELD(struct idx_settings, classes, "10", 1, 256, "classes; every label is below"),
};
static const struct field cifar_binary_fields[] = {
    TEXT_FIELD(struct cifar_binary_settings, train, NULL,
               "file of the training records, plain or compressed (.gz, .xz); not with data.split: files", .optional = true),
    TEXT_FIELD(struct cifar_binary_settings, test, NULL, "file of the test records"),
    INT_FIELD(struct cifar_binary_settings, classes, "10", 1, 256, "classes; every label is below"),
    FLAG_FIELD(struct cifar_binary_settings, coarse, "false",
               "a coarse label stands before the label, as in CIFAR-100"),
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

const struct kinds data_set_kinds = {.rows = set_kinds, .n = COUNT(set_kinds)};
