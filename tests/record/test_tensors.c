/* Named arrays go to a file and come back; whatever is not exactly such a file is refused, with its place. */
#include "record/tensors.h"

#include <errno.h>
#include <math.h>

#include "base/sha256.h"
#include "record/scratch.h"

static const float weights[] = {1, -2, 0.5f, 3, 1e30f, -0.0f};
static const float bias[] = {7};
static const struct named_floats two[] = {{"conv1.weight", {3, 2}, 2, weights, NULL}, {"conv1.bias", {1}, 1, bias, NULL}};
static const struct metadata notes[] = {{"round", "12"}, {"na\"me", "f\xc3\xbcnf\n\"sha256\":\"0\""}};

static const char *write_two(const char *folder)
{
    const char *path = in(folder, "two.safetensors");
    assert_ok(tensors_write(path, two, 2, notes, 2));
    return path;
}

static void what_is_written_is_read_again(void **state)
{
    struct tensors t;
    assert_ok(tensors_read(write_two(*state), &t));
    assert_int_equal(t.n, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct named_floats *found = tensors_find(&t, two[i].name);
        assert_ptr_equal(found, &t.at[i]);
        assert_int_equal(found->n_dims, two[i].n_dims);
        assert_memory_equal(found->dims, two[i].dims, sizeof two[i].dims);
    }
    assert_memory_equal(t.at[0].floats, weights, sizeof weights);
    assert_memory_equal(t.at[1].floats, bias, sizeof bias);
    for (size_t i = 0; i < 2; i++)
        assert_string_equal(tensors_metadata(&t, notes[i].key), notes[i].text);
    assert_int_equal(strlen(tensors_metadata(&t, "sha256")), 64);
    assert_null(tensors_find(&t, "conv1"));
    assert_null(tensors_metadata(&t, "rounds"));
    tensors_release(&t);
}

static void the_bits_of_odd_floats_survive(void **state)
{
    float odd[] = {NAN, -NAN, INFINITY, -INFINITY, -0.0f, 0x1p-149f, 0x1.fffffep127f};
    struct named_floats t = {"odd", {7}, 1, odd, NULL};
    struct tensors back;
    assert_ok(tensors_write(in(*state, "odd"), &t, 1, NULL, 0));
    assert_ok(tensors_read(in(*state, "odd"), &back));
    assert_memory_equal(back.at[0].floats, odd, sizeof odd);
    tensors_release(&back);
}

static void doubles_lie_before_floats_and_keep_their_bits(void **state)
{
    const double odd[] = {NAN, -INFINITY, -0.0, 0x1p-1074, 0x1.fffffffffffffp1023};
    struct named_floats some[] = {{"doubles", {5}, 1, NULL, odd}, {"floats", {1}, 1, bias, NULL}, {"more", {5}, 1, NULL, odd}};
    struct tensors back;
    assert_ok(tensors_write(in(*state, "doubles"), some, 2, NULL, 0));
    assert_ok(tensors_read(in(*state, "doubles"), &back));
    assert_true(back.n == 2 && !back.at[0].floats && !back.at[1].doubles);
    assert_memory_equal(back.at[0].doubles, odd, sizeof odd);
    assert_true(back.at[1].floats[0] == 7);
    tensors_release(&back);
    assert_fault(tensors_write(in(*state, "mixed"), some, 3, NULL, 0), FAULT_USAGE, "tensor 'more': doubles come before floats");
}

static void scalars_empty_tensors_and_no_tensors_at_all_are_allowed(void **state)
{
    struct named_floats some[] = {
        {"scalar", {0}, 0, bias, NULL}, {"empty", {4, 0, 2}, 3, NULL, NULL}, {"deep", {1, 2, 3, 1}, 4, weights, NULL}};
    struct tensors t;
    assert_ok(tensors_write(in(*state, "some"), some, 3, NULL, 0));
    assert_ok(tensors_read(in(*state, "some"), &t));
    assert_int_equal(t.n, 3);
    assert_true(t.at[0].n_dims == 0 && t.at[0].floats[0] == 7);
    assert_true(t.at[1].dims[1] == 0 && t.at[2].dims[2] == 3);
    tensors_release(&t);
    assert_ok(tensors_write(in(*state, "none"), NULL, 0, NULL, 0));
    assert_ok(tensors_read(in(*state, "none"), &t));
    assert_int_equal(t.n, 0);
    tensors_release(&t);
}

static void a_thousand_tensors_keep_their_order(void **state)
{
    static char names[1000][24];
    static float values[1000];
    static struct named_floats many[1000];
    for (size_t i = 0; i < 1000; i++) {
        snprintf(names[i], sizeof names[i], "layer%zu.weight", i * 7919 % 1000);
        values[i] = (float)i;
        many[i] = (struct named_floats){names[i], {1}, 1, &values[i], NULL};
    }
    struct tensors t;
    assert_ok(tensors_write(in(*state, "many"), many, 1000, NULL, 0));
    assert_ok(tensors_read(in(*state, "many"), &t));
    for (size_t i = 0; i < 1000; i++) {
        assert_string_equal(t.at[i].name, names[i]);
        assert_true(t.at[i].floats[0] == values[i]);
    }
    tensors_release(&t);
}

static void the_same_content_gives_the_same_file(void **state)
{
    size_t n, m;
    assert_ok(tensors_write(in(*state, "a"), two, 2, notes, 2));
    assert_ok(tensors_write(in(*state, "b"), two, 2, notes, 2));
    char *a = slurp(in(*state, "a"), &n), *b = slurp(in(*state, "b"), &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    free(a);
    free(b);
}

static void plain_python_reads_the_file(void **state)
{
    if (system("python3 -c 'import json, struct, hashlib' 2>/dev/null") != 0)
        skip_because("python3 is not here");
    char command[4096];
    snprintf(command, sizeof command, "python3 tests/record/read_tensors.py '%s' > '%s'", write_two(*state),
             in(*state, "out"));
    assert_int_equal(system(command), 0);
    size_t n;
    char *out = slurp(in(*state, "out"), &n);
    assert_string_equal(out, "na\"me=f\xc3\xbcnf\n\"sha256\":\"0\"\nround=12\n"
                             "conv1.weight [3, 2] 1 -2 0.5 3 1e+30 -0\nconv1.bias [1] 7\n");
    free(out);
}

/* Neither crash nor acceptance: a FAULT_CHECKPOINT that names the file. */
static void assert_refused(const char *bytes, size_t n)
{
    struct tensors t;
    assert_fault(tensors_parse(bytes, n, "some/file", &t), FAULT_CHECKPOINT, "some/file: ");
}

static void every_flipped_bit_is_noticed(void **state)
{
    size_t n;
    char *bytes = slurp(write_two(*state), &n);
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] ^= (char)(1 << bit);
            assert_refused(bytes, n);
            bytes[i] ^= (char)(1 << bit);
        }
    struct tensors t;
    assert_ok(tensors_parse(bytes, n, "whole again", &t));
    tensors_release(&t);
    free(bytes);
}

static void every_byte_set_to_a_few_other_values_is_noticed(void **state)
{
    static const char others[] = {0, ' ', '"', '}', '0', '9', 'F', (char)0x80, (char)0xff};
    size_t n;
    char *bytes = slurp(write_two(*state), &n);
    for (size_t i = 0; i < n; i++)
        for (size_t o = 0; o < sizeof others; o++) {
            char was = bytes[i];
            bytes[i] = others[o];
            if (bytes[i] != was)
                assert_refused(bytes, n);
            bytes[i] = was;
        }
    free(bytes);
}

static void every_truncation_and_every_added_byte_is_noticed(void **state)
{
    size_t n;
    char *bytes = slurp(write_two(*state), &n);
    for (size_t cut = 0; cut < n; cut++)
        assert_refused(bytes, cut);
    for (size_t more = 1; more < 40; more++)
        assert_refused(bytes, n + more); /* the bytes behind are zeros */
    free(bytes);
}

static void a_truncated_file_is_named_with_its_end(void **state)
{
    const char *path = write_two(*state);
    struct tensors t;
    assert_int_equal(truncate(path, 5), 0);
    assert_fault(tensors_read(path, &t), FAULT_CHECKPOINT, "two.safetensors: ends at byte 5");
    assert_int_equal(truncate(path, 0), 0);
    assert_fault(tensors_read(path, &t), FAULT_CHECKPOINT, "ends at byte 0");
}

/* A file around this header, with the right hash in the place of the first '#', so that only the header is at
 * fault. */
static char *sealed(const char *header, size_t n_data, size_t *n)
{
    size_t n_header = strlen(header) + 63, padded = round_up(n_header, 8);
    char *bytes = calloc(1, 8 + padded + n_data + 1), hex[SHA256_HEX];
    const char *mark = strchr(header, '#');
    assert_non_null(mark);
    memset(bytes + 8, ' ', padded);
    uint64_t length = padded;
    memcpy(bytes, &length, 8);
    char *at = bytes + 8 + (mark - header);
    memcpy(bytes + 8, header, (size_t)(mark - header));
    memset(at, '0', 64);
    memcpy(at + 64, mark + 1, strlen(mark + 1));
    *n = 8 + padded + n_data;
    assert_ok(sha256_of(bytes, *n, hex));
    memcpy(at, hex, 64);
    return bytes;
}

#define HASH "\"__metadata__\":{\"sha256\":\"#\"}"

static void assert_header_refused(const char *header, size_t n_data, const char *words)
{
    size_t n;
    char *bytes = sealed(header, n_data, &n);
    struct tensors t;
    assert_fault(tensors_parse(bytes, n, "x", &t), FAULT_CHECKPOINT, words);
    free(bytes);
}

static void a_well_made_header_from_elsewhere_is_accepted(void **state)
{
    (void)state;
    size_t n;
    char *bytes =
        sealed("{\"a\": {\"shape\": [2], \"dtype\": \"F32\", \"data_offsets\": [0, 8]}, " HASH "}", 8, &n);
    struct tensors t;
    assert_ok(tensors_parse(bytes, n, "x", &t));
    assert_int_equal(t.n, 1);
    tensors_release(&t);
    free(bytes);
}

#define ENTRY(dtype, shape, offsets) "{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define ONE(dtype, shape, offsets)   "{" HASH ",\"a\":" ENTRY(dtype, shape, offsets) "}"
#define F32                          "\"F32\""

static void an_entry_that_makes_no_sense_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header, *words;
    } cases[] = {
        {ONE("\"F16\"", "[2]", "[0,8]"), "only F32 and F64 are known"},
        {ONE("32", "[2]", "[0,8]"), "not described"},
        {ONE("\"F64\"", "[2]", "[0,8]"), "shape"},
        {ONE(F32, "2", "[0,8]"), "shape"},
        {ONE(F32, "[2.0]", "[0,8]"), "shape"},
        {ONE(F32, "[-2]", "[0,8]"), "shape"},
        {ONE(F32, "[\"2\"]", "[0,8]"), "shape"},
        {ONE(F32, "[1,1,1,1,2]", "[0,8]"), "shape"},
        {ONE(F32, "[3]", "[0,8]"), "shape"},
        {ONE(F32, "[4294967296,4294967296]", "[0,8]"), "shape"},
        {ONE(F32, "[4611686018427387904,4]", "[0,8]"), "shape"},
        {ONE(F32, "[1]", "[0,8]"), "its shape says 4 bytes"},
        {ONE(F32, "[2]", "[0,4]"), "its shape says 8 bytes"},
        {ONE(F32, "[1]", "[4,8]"), "begins at byte 4"},
        {ONE(F32, "[1]", "[0,4]"), "the tensors end at byte 4"},
        {ONE(F32, "[2]", "[0,9]"), "does not lie within"},
        {ONE(F32, "[2]", "[0,8,8]"), "does not lie within"},
        {ONE(F32, "[2]", "[0]"), "does not lie within"},
        {ONE(F32, "[2]", "[-8,8]"), "does not lie within"},
        {ONE(F32, "[2]", "[0,18446744073709551624]"), "not JSON"},
        {ONE(F32, "[2]", "[0,8.0]"), "does not lie within"},
        {ONE(F32, "[2]", "8"), "does not lie within"},
        {ONE(F32, "[0]", "[8,0]"), "begins at byte 8"},
        {ONE(F32 ",\"more\":1", "[2]", "[0,8]"), "not described"},
        {"{" HASH ",\"a\":7}", "not described"},
        {"{" HASH ",\"a\":{\"dtype\":\"F32\"}}", "not described"},
        {"{" HASH "}", "the tensors end at byte 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_header_refused(cases[i].header, 8, cases[i].words);
}

static void overlaps_gaps_and_repeated_names_are_refused(void **state)
{
    (void)state;
    const char *overlap =
        "{" HASH ",\"a\":" ENTRY(F32, "[2]", "[0,8]") ",\"b\":" ENTRY(F32, "[2]", "[4,12]") "}";
    const char *gap = "{" HASH ",\"a\":" ENTRY(F32, "[1]", "[0,4]") ",\"b\":" ENTRY(F32, "[1]", "[8,12]") "}";
    const char *twice =
        "{" HASH ",\"a\":" ENTRY(F32, "[1]", "[0,4]") ",\"a\":" ENTRY(F32, "[2]", "[4,12]") "}";
    const char *again =
        "{" HASH ",\"a\":" ENTRY(F32, "[3]", "[0,12]") ",\"b\":" ENTRY(F32, "[3]", "[0,12]") "}";
    assert_header_refused(overlap, 12, "'b' begins at byte 4");
    assert_header_refused(gap, 12, "'b' begins at byte 8");
    assert_header_refused(twice, 12, "duplicate");
    assert_header_refused(again, 12, "'b' begins at byte 0");
}

static void a_header_that_is_no_object_or_bears_no_hash_is_refused(void **state)
{
    (void)state;
    assert_header_refused("[\"#\"]", 0, "byte 0");
    assert_header_refused(" {" HASH "}", 0, "byte 0");
    assert_header_refused("{" HASH "} x", 0, "not JSON");
    assert_header_refused("{" HASH ",}", 0, "not JSON");
    assert_header_refused("{\"__metadata__\":{\"sha255\":\"#\"}}", 0, "no hash");
    assert_header_refused("{\"__metadata__\":{\"sha256\":\"#0\"}}", 0, "no hash");
    assert_header_refused("{\"__metadata__\":[\"#\"]}", 0, "not a map");
    assert_header_refused("{\"__metadata__\":{\"sha256\":\"#\",\"x\":1}}", 0, "'x' is not a text");
    assert_header_refused("{\"__metadata__\":{\"sha256\":\"#\",\"x\":\"\\u0000\"}}", 0, "not JSON");
}

static void a_header_length_out_of_the_world_is_refused(void **state)
{
    (void)state;
    const uint64_t lengths[] = {0, 1, 15, 17, 1 << 20, UINT64_MAX, UINT64_MAX - 7, UINT64_C(1) << 63};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char bytes[24] = "12345678{              ";
        memcpy(bytes, &lengths[i], 8);
        assert_refused(bytes, sizeof bytes);
    }
}

static void deeply_nested_json_is_refused_without_a_crash(void **state)
{
    (void)state;
    enum { DEEP = 1 << 20 };
    char *bytes = malloc(8 + DEEP);
    uint64_t length = DEEP;
    memcpy(bytes, &length, 8);
    for (size_t i = 0; i < DEEP; i += 8)
        memcpy(bytes + 8 + i, "{\"a\":[[[", 8);
    assert_refused(bytes, 8 + DEEP);
    free(bytes);
}

static void a_file_that_cannot_be_read_is_named(void **state)
{
    struct tensors t;
    assert_fault(tensors_read(in(*state, "nowhere"), &t), FAULT_FILE,
                 "nowhere: cannot be read: No such file");
    assert_fault(tensors_read(*state, &t), FAULT_FILE, "not a plain file");
    assert_int_equal(mkfifo(in(*state, "pipe"), 0666), 0);
    assert_fault(tensors_read(in(*state, "pipe"), &t), FAULT_FILE, "not a plain file");
}

static void names_that_cannot_be_written_are_refused_before_anything_is_touched(void **state)
{
    const char *path = in(*state, "bad");
    struct named_floats twice[] = {{"a", {1}, 1, bias, NULL}, {"a", {1}, 1, bias, NULL}};
    struct named_floats reserved = {"__metadata__", {1}, 1, bias, NULL}, garbled = {"\xff", {1}, 1, bias, NULL};
    struct metadata hash = {"sha256", "x"}, double_key[] = {{"k", "1"}, {"k", "2"}}, bad_text = {"k", "\xc3"};
    assert_fault(tensors_write(path, twice, 2, NULL, 0), FAULT_USAGE, "'a'");
    assert_fault(tensors_write(path, &reserved, 1, NULL, 0), FAULT_USAGE, "taken");
    assert_fault(tensors_write(path, &garbled, 1, NULL, 0), FAULT_USAGE, "UTF-8");
    assert_fault(tensors_write(path, two, 2, &hash, 1), FAULT_USAGE, "'sha256' is taken");
    assert_fault(tensors_write(path, two, 2, double_key, 2), FAULT_USAGE, "'k' is taken");
    assert_fault(tensors_write(path, two, 2, &bad_text, 1), FAULT_USAGE, "UTF-8");
    assert_int_equal(count_names(*state, ""), 0);
}

static void writing_where_no_folder_is_leaves_nothing(void **state)
{
    spit(in(*state, "file"), "x", 1);
    assert_fault(tensors_write(in(*state, "none/x"), two, 2, NULL, 0), FAULT_FILE,
                 "none/x: cannot be written: No such file");
    assert_fault(tensors_write(in(*state, "file/x"), two, 2, NULL, 0), FAULT_FILE,
                 "file/x: cannot be written: Not a directory");
    assert_int_equal(mkdir(in(*state, "folder"), 0777), 0);
    assert_fault(tensors_write(in(*state, "folder"), two, 2, NULL, 0), FAULT_FILE,
                 "folder: cannot be written");
    assert_int_equal(count_names(*state, ""), 2);
}

static void a_part_left_by_a_process_of_the_same_number_is_in_nobodys_way(void **state)
{
    char part[600];
    snprintf(part, sizeof part, "two.safetensors.part-%ld-0", (long)getpid());
    spit(in(*state, part), "old", 3);
    write_two(*state);
    assert_true(exists(in(*state, part)));
    assert_int_equal(count_names(*state, ""), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH(what_is_written_is_read_again),
        SCRATCH(the_bits_of_odd_floats_survive),
        SCRATCH(doubles_lie_before_floats_and_keep_their_bits),
        SCRATCH(scalars_empty_tensors_and_no_tensors_at_all_are_allowed),
        SCRATCH(a_thousand_tensors_keep_their_order),
        SCRATCH(the_same_content_gives_the_same_file),
        SCRATCH(plain_python_reads_the_file),
        SCRATCH(every_flipped_bit_is_noticed),
        SCRATCH(every_byte_set_to_a_few_other_values_is_noticed),
        SCRATCH(every_truncation_and_every_added_byte_is_noticed),
        SCRATCH(a_truncated_file_is_named_with_its_end),
        SCRATCH(a_well_made_header_from_elsewhere_is_accepted),
        SCRATCH(an_entry_that_makes_no_sense_is_refused),
        SCRATCH(overlaps_gaps_and_repeated_names_are_refused),
        SCRATCH(a_header_that_is_no_object_or_bears_no_hash_is_refused),
        SCRATCH(a_header_length_out_of_the_world_is_refused),
        SCRATCH(deeply_nested_json_is_refused_without_a_crash),
        SCRATCH(a_file_that_cannot_be_read_is_named),
        SCRATCH(names_that_cannot_be_written_are_refused_before_anything_is_touched),
        SCRATCH(writing_where_no_folder_is_leaves_nothing),
        SCRATCH(a_part_left_by_a_process_of_the_same_number_is_in_nobodys_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
