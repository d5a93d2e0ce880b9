/* messages.c - bytes: whole, in order, under their tag, to whom they are for; forgotten, dissolved,
 * counted. */
#include "link/suite.h"

#include <stdlib.h>

/* ---- bytes ---- */

enum { MOST_BYTES = 100001 };
static const size_t lengths[] = {0, 1, 3, 4047, 4048, 4049, 20000, MOST_BYTES, 2};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths, TIMES = 3 };

/* The i-th byte of the k-th message of a member. */
static unsigned char byte_of(size_t member, size_t k, size_t i)
{
    return (unsigned char)(31 * member + 7 * k + i + i / 251);
}

static fault send_lengths(struct agent *a, unsigned char *bytes)
{
    for (size_t k = 0; k < TIMES * N_LENGTHS; k++) {
        size_t n = lengths[k % N_LENGTHS];
        for (size_t i = 0; i < n; i++)
            bytes[i] = byte_of(a->index, k, i);
        TRY(link_send(a->link, after(a), 9, bytes, n));
        memset(bytes, 0, n); /* they are mine again */
    }
    return OK;
}

static fault receive_lengths(struct agent *a, unsigned char *bytes)
{
    for (size_t k = 0; k < TIMES * N_LENGTHS; k++) {
        size_t n = lengths[k % N_LENGTHS], wrong = 0, who = ANYONE;
        TRY(link_recv(a->link, before(a), 9, bytes, n, &who));
        for (size_t i = 0; i < n; i++)
            wrong += bytes[i] != byte_of(before(a), k, i);
        CHECK(wrong == 0 && who == before(a));
    }
    return OK;
}

static fault bytes_arrive_whole_and_in_order(struct agent *a)
{
    unsigned char *bytes = malloc(MOST_BYTES);
    fault f = bytes ? send_lengths(a, bytes) : OUT_OF_MEMORY;
    if (!f)
        f = receive_lengths(a, bytes);
    free(bytes);
    return f;
}

static fault another_length_is_a_fault(struct agent *a)
{
    char bytes[8] = "1234567";
    TRY(link_send(a->link, after(a), 1, bytes, 3));
    TRY(link_send_rows(a->link, after(a), 2, whole(1u << ROW_FEW)));
    CHECK_FAULT(link_recv(a->link, before(a), 1, bytes, 4, NULL), FAULT_USAGE, "sent 3 bytes where agent");
    CHECK_FAULT(link_recv(a->link, before(a), 2, bytes, 4, NULL), FAULT_USAGE, "expects 4");
    CHECK(strcmp(bytes, "1234567") == 0);
    return OK;
}

static fault tags_are_told_apart(struct agent *a)
{
    for (uint64_t tag = 5; tag; tag--)
        TRY(link_send(a->link, after(a), tag, &tag, sizeof tag));
    for (uint64_t tag = 1; tag <= 5; tag++) {
        uint64_t got = 0;
        TRY(link_recv(a->link, before(a), tag, &got, sizeof got, NULL));
        CHECK(got == tag);
    }
    return OK;
}

/* The last member hears from everyone, itself too, as they come. */
static fault anyone_is_heard_in_order_and_named(struct agent *a)
{
    enum { EACH = 10 };
    size_t n = a->link->n_members;
    uint64_t heard[64] = {0};
    for (uint64_t i = 0; i < EACH; i++)
        TRY(link_send(a->link, n - 1, 3, &i, sizeof i));
    for (size_t i = 0; a->index == n - 1 && i < EACH * n; i++) {
        uint64_t number;
        size_t who = ANYONE;
        TRY(link_recv(a->link, ANYONE, 3, &number, sizeof number, &who));
        CHECK(who < n);
        CHECK(number == heard[who]);
        heard[who]++;
    }
    return OK;
}

/* ---- mail ---- */

/* Nobody waits in a receive: looking for mail is enough for it to come. */
static fault mail_comes_while_one_looks_for_it(struct agent *a)
{
    char byte = 'x';
    CHECK(!link_has_mail(a->link, 8));
    TRY(suite_barrier(a, 7));
    double until = link_now_s(a->link) + 20;
    TRY(link_send(a->link, after(a), 8, &byte, 1));
    while (!link_has_mail(a->link, 8)) {
        CHECK(link_now_s(a->link) < until);
        TRY(link_sleep(a->link, 1e-4));
    }
    TRY(link_recv(a->link, before(a), 8, &byte, 1, NULL));
    CHECK(!link_has_mail(a->link, 8));
    return OK;
}

static fault what_is_forgotten_is_gone_and_the_rest_is_not(struct agent *a)
{
    char byte = 'x';
    for (uint64_t tag = 1; tag <= 4; tag++)
        TRY(link_send(a->link, after(a), tag, &byte, 1));
    TRY(link_recv(a->link, before(a), 4, &byte, 1, NULL)); /* so the others are here */
    link_forget(a->link, 3);
    CHECK(!link_has_mail(a->link, 1) && !link_has_mail(a->link, 2) && link_has_mail(a->link, 3));
    CHECK(a->link->counts.unread == 2);
    TRY(link_recv(a->link, before(a), 3, &byte, 1, NULL));
    CHECK(!link_has_mail(a->link, 3));
    return OK;
}

/* ---- groups ---- */

static uint64_t tag_of_group(uint64_t generation, uint64_t rest)
{
    return TAG_GROUP | generation << TAG_GENERATION | rest;
}

/* The last member dissolves what all others wait in. */
static fault a_dissolved_group_is_left_at_once(struct agent *a)
{
    size_t n = a->link->n_members;
    uint64_t below = tag_of_group(3, 0), old = tag_of_group(2, 5);
    char byte = 'x';
    CHECK(link_dissolved(a->link) == 0);
    TRY(link_send(a->link, after(a), old, &byte, 1));
    TRY(link_send(a->link, after(a), 6, &byte, 1));
    TRY(suite_barrier(a, 5));
    if (a->index == n - 1)
        link_dissolve(a->link, below, "the bridge is out");
    CHECK_FAULT(link_recv(a->link, before(a), tag_of_group(2, 9), &byte, 1, NULL), FAULT_PEER,
                "the bridge is out");
    CHECK(link_dissolved(a->link) == below);
    CHECK_FAULT(link_recv(a->link, ANYONE, old, &byte, 1, NULL), FAULT_PEER, "the bridge is out");
    CHECK(!link_has_mail(a->link, old));
    TRY(link_recv(a->link, before(a), 6, &byte, 1, NULL)); /* no group's */
    TRY(link_send(a->link, after(a), below, &byte, 1));
    TRY(link_recv(a->link, before(a), below, &byte, 1, NULL)); /* the next group's */
    TRY(link_send(a->link, after(a), old, &byte, 1));          /* too late */
    TRY(suite_barrier(a, 7));
    CHECK(a->link->counts.unread == 2);
    return OK;
}

static fault everyone_can_be_asked_to_dissolve_its_own(struct agent *a)
{
    char byte;
    TRY(suite_barrier(a, 5));
    if (a->index == a->link->n_members - 1)
        link_dissolve(a->link, 0, "somebody came");
    CHECK_FAULT(link_recv(a->link, before(a), tag_of_group(0, 1), &byte, 1, NULL), FAULT_PEER,
                "somebody came");
    CHECK(link_dissolved(a->link) >= tag_of_group(1, 0));
    return suite_barrier(a, 6); /* a member that has come to its end is not told from the dissolving */
}

/* ---- counts ---- */

static fault what_becomes_of_messages_is_counted(struct agent *a)
{
    char bytes[100] = "";
    struct parcel p;
    const struct link_counts *c = &a->link->counts;
    size_t size = link_row_floats(a->link, ROW_PARAMS);
    TRY(link_send(a->link, after(a), 1, bytes, 100));
    TRY(link_send_rows(a->link, after(a), 1, (struct span){ROWS_PARAMS | ROWS_GRADS, 10, 20}));
    TRY(link_send_rows(a->link, after(a), 2, whole(ROWS_PARAMS)));
    CHECK(c->messages == 3 && c->bytes == 100 + 2 * 10 * 4 + size * 4);
    TRY(link_recv(a->link, before(a), 1, bytes, 100, NULL));
    TRY(link_recv_rows(a->link, before(a), 1, &p, NULL));
    link_drop(a->link, &p);
    while (!link_has_mail(a->link, 2))
        TRY(link_sleep(a->link, 1e-3));
    link_forget(a->link, 3);
    CHECK(c->messages == 3 && c->received == 2 && c->unread == 1 && c->lost == 0);
    return OK;
}

static fault say_something(struct agent *a)
{
    char text[64];
    snprintf(text, sizeof text, "hello from %zu", a->index);
    link_note(a->link, "greeting", text);
    memset(text, 0, sizeof text);
    return suite_barrier(a, 1);
}

static fault all_were_heard(struct play *p)
{
    for (size_t i = 0; i < p->n; i++) {
        char line[64];
        snprintf(line, sizeof line, "hello from %zu\n", i);
        CHECK(strstr(p->notes, line));
    }
    return OK;
}

const struct link_case cases_of_messages[] = {
    {.name = "bytes of any length arrive whole and in order, and are the sender's own again at once",
     .says = {"Messages from one peer under one tag come in the order in which they were sent.",
              "Bytes to a peer: borrowed only until send returns."},
     .program = bytes_arrive_whole_and_in_order},
    {.name = "bytes of another number than expected are a fault",
     .says = {"Waits for exactly n bytes under this tag, from one peer or ANYONE"},
     .program = another_length_is_a_fault},
    {.name = "messages are received by their tag",
     .says = {"Waits for exactly n bytes under this tag, from one peer or ANYONE"},
     .program = tags_are_told_apart},
    {.name = "who waits for anyone hears each in order, and who it was",
     .says = {"from one peer or ANYONE; `sender` may be NULL.",
              "Messages from one peer under one tag come in the order in which they were sent."},
     .program = anyone_is_heard_in_order_and_named},
    {.name = "mail comes while one looks for it",
     .says = {"Something has arrived under this tag, from anyone."},
     .program = mail_comes_while_one_looks_for_it},
    {.name = "what is forgotten is let go of, and the rest is not",
     .says = {"Lets go of messages that arrived for tags below this one.",
              "by me, and not: forgotten, or in the mail when my machine went down"},
     .program = what_is_forgotten_is_gone_and_the_rest_is_not},
    {.name = "a dissolved group wakes those who wait in it, and says why",
     .says = {"nothing more will come under tags of groups below this one, and why",
              "whoever waits for such a message, or will, gets FAULT_PEER with this text at once",
              "The tag below which tags of groups are dissolved, as far as I have heard."},
     .program = a_dissolved_group_is_left_at_once},
    {.name = "everyone can be asked to dissolve the generation it is in",
     .says = {"0: asks everyone to do so for the generation it is in"},
     .program = everyone_can_be_asked_to_dissolve_its_own,
     .least = 2},
    {.name = "messages, bytes and what became of them are counted",
     .says = {"sent by me, those that were lost included", "by me, and used"},
     .program = what_becomes_of_messages_is_counted},
    {.name = "what members note reaches whoever leads",
     .says = {"One line for people and for the records"},
     .program = say_something,
     .look = all_were_heard},
    {0},
};
