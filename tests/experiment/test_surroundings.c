/* Topology, machines, network and events: what is written becomes the right structs, and what cannot be is
 * refused with its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/reading.h"
#include "topology/topology.h"

#define FOUR "data: {set: dots, batch: 25}\nmodel: tower\noptim: {sgd: 0.1}\ntrain: {epochs: 2}\nagents: 4\n"

static void a_topology_is_a_graph_or_a_map(void **state)
{
    (void)state;
    struct experiment *e = reads(FOUR "topology: ring:4\n", NULL);
    assert_true(e->topology.written);
    assert_string_equal(e->topology.graph, "ring:4");
    assert_int_equal(e->topology.weights, WEIGHTS_AUTO);
    assert_int_equal(e->topology.place.line, 6);
    assert_int_equal(e->topology.place.column, 11);
    experiment_free(e);
    e = reads(FOUR "topology: {weights: metropolis, graph: mesh:2x2}\n", NULL);
    assert_string_equal(e->topology.graph, "mesh:2x2");
    assert_int_equal(e->topology.weights, 1);
    assert_int_equal(e->topology.place.column, 40);
    experiment_free(e);
    e = reads(FOUR "topology: ring:4\n", "topology.weights=fastest");
    assert_string_equal(e->topology.graph, "ring:4");
    assert_int_equal(e->topology.weights, 3);
    experiment_free(e);
}

static void weights_are_numbered_as_the_topology_room_numbers_them(void **state)
{
    (void)state;
    size_t n;
    const struct section *sections = experiment_sections(&n);
    assert_int_equal(WEIGHTS_AUTO, N_WEIGHTS);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < sections[i].n_fields; j++) {
            const struct field *field = &sections[i].fields[j];
            for (int w = 0; w < N_WEIGHTS && strcmp(field->name, "weights") == 0; w++)
                assert_string_equal(field->choices[w], weights_name((enum weights_kind)w));
        }
}

static void a_topology_that_cannot_be_is_refused(void **state)
{
    (void)state;
    refuses(FOUR "topology: rnig:4\n",
            "folder/e.yaml:6:11: topology: 'rnig:4' is not among the topologies; did you mean 'ring'?");
    refuses(FOUR "topology: {graph: ring}\n",
            "folder/e.yaml:6:19: topology.graph: 'ring' says too little: it is written as ring:N");
    refuses(FOUR "topology: {weights: fastest}\n",
            "folder/e.yaml:6:11: topology: the key 'graph' is missing (who is whose "
            "neighbour, such as cycle:4)");
    refuses(
        FOUR "topology: {graph: ring:4, weights: fastst}\n",
        "folder/e.yaml:6:36: topology.weights: 'fastst' is not one of uniform, metropolis, best-constant, "
        "fastest, auto; did "
        "you mean 'fastest'?");
    refuses(FOUR "topology: [ring:4]\n",
            "folder/e.yaml:6:11: topology: a list was written where a text is expected");
    refuses(FOUR "topology:\n", "folder/e.yaml:6:10: topology: nothing was written where a text is expected");
}

static void machines_that_cannot_be_are_refused(void **state)
{
    (void)state;
    refuses(FOUR "machines: {speed: [1, 2]}\n", "folder/e.yaml:6:19: machines.speed: 2 speeds for 4 agents; "
                                                "one for each, or one for all, is expected");
    refuses(FOUR "machines: {speed: {list: []}}\n",
            "folder/e.yaml:6:26: machines.speed.list: 0 speeds for 4 agents; one for "
            "each, or one for all, is expected");
    refuses(
        FOUR "machines: {speed: {kind: list, speeds: [1, 2, 3]}}\n",
        "folder/e.yaml:6:40: machines.speed.speeds: 3 speeds for 4 agents; one for each, or one for all, is "
        "expected");
    refuses(FOUR "machines: {speed: [1, 1, 0, 1]}\n",
            "folder/e.yaml:6:26: machines.speed.2: 0 is too small: it must be above 0");
    refuses(FOUR "machines: {speed: -1}\n",
            "folder/e.yaml:6:19: machines.speed: -1 is too small: it must be above 0");
    refuses(FOUR "machines: {speed: 1x}\n", "folder/e.yaml:6:19: machines.speed: '1x' is not a number");
    refuses(FOUR "machines: {speed: '1'}\n",
            "folder/e.yaml:6:19: machines.speed: '1' is not among the speeds: list, uniform, lognormal");
    refuses(FOUR "machines: {speed: }\n",
            "folder/e.yaml:6:19: machines.speed: nothing was written where a name is expected");
    refuses(FOUR "machines: {speed: unform}\n",
            "folder/e.yaml:6:19: machines.speed: 'unform' is not among the speeds; did you mean 'uniform'?");
    refuses(FOUR "machines: {speed: uniform}\n",
            "folder/e.yaml:6:19: machines.speed: the key 'between' is missing "
            "(the slowest and the fastest, [low, high])");
    refuses(FOUR "machines: {speed: {uniform: 2}}\n", "folder/e.yaml:6:29: machines.speed.uniform: the "
                                                      "slowest and the fastest speed are expected: [0.5, 2]");
    refuses(FOUR "machines: {speed: {uniform: [2, 1]}}\n",
            "folder/e.yaml:6:29: machines.speed.uniform: the slowest and the fastest speed are expected: "
            "[0.5, 2]");
    refuses(FOUR "machines: {speed: {lognormal: 11}}\n",
            "folder/e.yaml:6:31: machines.speed.lognormal: 11 is above the most allowed, 10");
    refuses(FOUR "machines: {stragglers: {fixed: [3]}}\n",
            "folder/e.yaml:6:24: machines.stragglers: the key 'factor' is "
            "missing (how many times longer their lessons take)");
    refuses(FOUR "machines: {stragglers: {fixed: [3, 4], factor: 2}}\n",
            "folder/e.yaml:6:36: machines.stragglers.fixed.1: there is no agent 4: they are numbered from 0 "
            "to 3");
    refuses(FOUR "machines: {stragglers: {kind: fixed, agents: [3, 1, 3], factor: 2}}\n",
            "folder/e.yaml:6:53: machines.stragglers.agents.2: agent 3 is named twice");
    refuses(FOUR "machines: {stragglers: {fixed: [], factor: 2}}\n",
            "folder/e.yaml:6:32: machines.stragglers.fixed: one agent or more is expected here");
    refuses(FOUR "machines: {stragglers: {fixed: 1.5, factor: 2}}\n",
            "folder/e.yaml:6:32: machines.stragglers.fixed: '1.5' is not a whole number");
    refuses(FOUR "machines: {stragglers: {random: 1.5, factor: 2}}\n",
            "folder/e.yaml:6:33: machines.stragglers.random: 1.5 is above the most allowed, 1");
    refuses(FOUR "machines: {stragglers: {random: 0.5, factor: 0.5}}\n",
            "folder/e.yaml:6:46: machines.stragglers.factor: 0.5 is below the least allowed, 1");
    refuses(FOUR "machines: {sped: 1}\n",
            "folder/e.yaml:6:12: machines.sped: unknown key 'sped' in machines of kind given; did you mean 'speed'?");
}

static void assert_wire(struct wire w, double latency_s, double bytes_per_s)
{
    assert_true(w.latency_s == latency_s);
    assert_true(w.bytes_per_s == bytes_per_s);
}

static void every_pair_has_its_wire(void **state)
{
    (void)state;
    struct experiment *e = reads(FOUR "network:\n"
                                      "  latency_ms: 2\n"
                                      "  bandwidth_mbps: 1000\n"
                                      "  patience_s: 5\n"
                                      "  sites: [[0, 2], [3, 1]]\n"
                                      "  across: {latency_ms: 40, bandwidth_mbps: 8}\n"
                                      "  links:\n"
                                      "  - {between: [3, 2], latency_ms: 500}\n"
                                      "  - {between: [0, 2], bandwidth_mbps: 16}\n",
                                 NULL);
    const struct network_settings *n = &e->network;
    assert_true(n->written);
    assert_true(n->patience_s == 5);
    assert_int_equal(n->sites.n_groups, 2);
    assert_true(n->site_of[0] == 0 && n->site_of[1] == 1 && n->site_of[2] == 0 && n->site_of[3] == 1);
    assert_int_equal(n->n_links, 2);
    for (size_t swap = 0; swap < 2; swap++) {
#define WIRE(a, b) (swap ? network_wire(n, b, a) : network_wire(n, a, b))
        assert_wire(WIRE(1, 3), 0.002, 125e6);
        assert_wire(WIRE(0, 1), 0.04, 1e6);
        assert_wire(WIRE(1, 2), 0.04, 1e6);
        assert_wire(WIRE(0, 3), 0.04, 1e6);
        assert_wire(WIRE(2, 3), 0.5, 1e6);   /* the rest as across */
        assert_wire(WIRE(0, 2), 0.002, 2e6); /* the rest as within */
    }
    experiment_free(e);
}

static void without_sites_one_wire_is_everywhere(void **state)
{
    (void)state;
    struct experiment *e = reads(FOUR "network: {bandwidth_mbps: 80}\n", NULL);
    assert_wire(network_wire(&e->network, 0, 3), 0, 1e7);
    assert_null(e->network.site_of);
    experiment_free(e);
    e = reads(FOUR, NULL);
    assert_wire(network_wire(&e->network, 2, 1), 0, 0);
    experiment_free(e);
}

static void a_network_that_cannot_be_is_refused(void **state)
{
    (void)state;
#define NETWORK(rest) FOUR "network: {" rest "}\n"
    refuses(NETWORK("latency_ms: -1"),
            "folder/e.yaml:6:23: network.latency_ms: -1 is below the least allowed, 0");
    refuses(
        NETWORK("latency: 1"),
        "folder/e.yaml:6:11: network.latency: unknown key 'latency' in network; did you mean 'latency_ms'?");
    refuses(NETWORK("patience_s: 0"),
            "folder/e.yaml:6:23: network.patience_s: 0 is too small: it must be above 0");
    refuses(NETWORK("sites: [[0, 1], [2]]"), "folder/e.yaml:6:18: network.sites: agent 3 is at no site");
    refuses(NETWORK("sites: [[0, 1], [2, 3, 1]]"),
            "folder/e.yaml:6:34: network.sites.1.2: agent 1 is named twice");
    refuses(NETWORK("sites: [[0, 1, 2, 3], []]"),
            "folder/e.yaml:6:33: network.sites.1: one agent or more is expected here");
    refuses(NETWORK("sites: [0, 1, 2, 3]"),
            "folder/e.yaml:6:19: network.sites.0: a list of agents is expected here: [0, 1]");
    refuses(NETWORK("sites: all"),
            "folder/e.yaml:6:18: network.sites: a list of groups is expected here: [[0, 1], [2, 3]]");
    refuses(NETWORK("sites: [[0, 1], [2, 4]]"),
            "folder/e.yaml:6:31: network.sites.1.1: there is no agent 4: they are numbered from 0 to 3");
    refuses(NETWORK("sites: [[0, 1], [2, x]]"),
            "folder/e.yaml:6:31: network.sites.1.1: 'x' is not a whole number");
    refuses(NETWORK("across: {latency_ms: 1}"),
            "folder/e.yaml:6:11: network.across: this is the wire between sites, but no sites are written");
    refuses(
        NETWORK("sites: [[0, 1, 2, 3]], across: {latency: 1}"),
        "folder/e.yaml:6:43: network.across.latency: unknown key 'latency' in network.across; did you mean "
        "'latency_ms'?");
    refuses(NETWORK("links: {between: [0, 1]}"), "folder/e.yaml:6:18: network.links: a list of links is "
                                                 "expected here: [{between: [0, 1], latency_ms: 20}]");
    refuses(NETWORK("links: [{latency_ms: 1}]"),
            "folder/e.yaml:6:19: network.links.0: the key 'between' is missing (the two "
            "agents, [0, 1]; the link is the same both ways)");
    refuses(NETWORK("links: [{between: [0]}]"),
            "folder/e.yaml:6:29: network.links.0.between: two agents are expected here: [0, 1]");
    refuses(NETWORK("links: [{between: 3}]"),
            "folder/e.yaml:6:29: network.links.0.between: two agents are expected here: [0, 1]");
    refuses(NETWORK("links: [{between: [1, 1]}]"),
            "folder/e.yaml:6:33: network.links.0.between.1: agent 1 is named twice");
    refuses(
        NETWORK("links: [{between: [0, 7]}]"),
        "folder/e.yaml:6:33: network.links.0.between.1: there is no agent 7: they are numbered from 0 to 3");
    refuses(NETWORK("links: [{between: [0, 1], bandwidth_mbps: x}]"),
            "folder/e.yaml:6:53: network.links.0.bandwidth_mbps: 'x' is not a number");
    refuses(NETWORK("links: [{between: [0, 1]}, {between: [2, 1]}, {between: [1, 0]}]"),
            "folder/e.yaml:6:57: network.links.2: the link between 0 and 1 is written twice");
    refuses(NETWORK("links: [3]"),
            "folder/e.yaml:6:19: network.links.0: '3' was written where a map of settings is expected");
}

static void every_kind_of_event_is_taken(void **state)
{
    (void)state;
    struct experiment *e =
        reads(FOUR "events:\n"
                   "- {at_s: 10.5, crash: 3}\n"
                   "- {at_s: 20, return: [3, 0]}\n"
                   "- {at_s: 5, cut: [1, 0]}\n"
                   "- {at_s: 7, mend: [0, 1]}\n"
                   "- {random: {crash_every_s: 100, down_s: 20, cut_every_s: 200, cut_s: 10}}\n"
                   "- {at_s: 0, partition: [[2, 0], [3]]}\n"
                   "- {at_s: 9, heal: all}\n",
              NULL);
    static const struct {
        enum event_kind kind;
        double at_s;
        size_t n, line;
        uint32_t agents[3];
    } expected[] = {
        {EVENT_CRASH, 10.5, 1, 7, {3}}, {EVENT_RETURN, 20, 2, 8, {3, 0}},       {EVENT_CUT, 5, 2, 9, {1, 0}},
        {EVENT_MEND, 7, 2, 10, {0, 1}}, {EVENT_PARTITION, 0, 3, 12, {2, 0, 3}}, {EVENT_HEAL, 9, 0, 13, {0}},
    };
    assert_int_equal(e->events.n, 6);
    for (size_t i = 0; i < 6; i++) {
        const struct event *v = &e->events.at[i];
        assert_int_equal(v->kind, expected[i].kind);
        assert_true(v->at_s == expected[i].at_s);
        assert_int_equal(v->who.n, expected[i].n);
        assert_int_equal(v->place.line, expected[i].line);
        for (size_t a = 0; a < v->who.n; a++)
            assert_int_equal(v->who.agents[a], expected[i].agents[a]);
    }
    const struct groups *parts = &e->events.at[4].who;
    assert_int_equal(parts->n_groups, 2);
    assert_true(parts->group[0] == 0 && parts->group[1] == 0 && parts->group[2] == 1);
    const struct random_events *r = &e->events.random;
    assert_true(e->events.has_random);
    assert_true(r->crash_every_s == 100 && r->down_s == 20 && r->cut_every_s == 200 && r->cut_s == 10);
    assert_int_equal(r->place.line, 11);
    experiment_free(e);
}

static void events_that_cannot_be_are_refused(void **state)
{
    (void)state;
#define EVENT(item) FOUR "events: [" item "]\n"
    refuses(FOUR "events: {at_s: 1, crash: 2}\n",
            "folder/e.yaml:6:9: events: a list of events is expected here: [{at_s: 10, crash: 3}]");
    refuses(EVENT("crash"),
            "folder/e.yaml:6:10: events.0: 'crash' was written where a map of settings is expected");
    refuses(EVENT("{crash: 2}"),
            "folder/e.yaml:6:10: events.0: the key 'at_s' is missing (when, in virtual seconds)");
    refuses(EVENT("{at_s: -1, crash: 2}"),
            "folder/e.yaml:6:17: events.0.at_s: -1 is below the least allowed, 0");
    refuses(EVENT("{at_s: 1}"),
            "folder/e.yaml:6:10: events.0: nothing happens here: crash, stall, return, cut, mend, partition or "
            "heal is expected");
    refuses(EVENT("{at_s: 1, crash: 2, heal: all}"),
            "folder/e.yaml:6:30: events.0.heal: an item is one event, and this one is a crash already");
    refuses(EVENT("{at_s: 1, crush: 2}"),
            "folder/e.yaml:6:20: events.0.crush: unknown key 'crush' in events.0; did you mean 'crash'?");
    refuses(EVENT("{at_s: 1, crash: 4}"),
            "folder/e.yaml:6:27: events.0.crash: there is no agent 4: they are numbered from 0 to 3");
    refuses(EVENT("{at_s: 1, crash: [1, 1]}"),
            "folder/e.yaml:6:31: events.0.crash.1: agent 1 is named twice");
    refuses(EVENT("{at_s: 1, crash: []}"),
            "folder/e.yaml:6:27: events.0.crash: one agent or more is expected here");
    refuses(EVENT("{at_s: 1, crash: all}"),
            "folder/e.yaml:6:27: events.0.crash: 'all' is not a whole number");
    refuses(EVENT("{at_s: 1, crash: -1}"),
            "folder/e.yaml:6:27: events.0.crash: -1 is below the least allowed, 0");
    refuses(EVENT("{at_s: 1, cut: 2}"),
            "folder/e.yaml:6:25: events.0.cut: two agents are expected here: [0, 1]");
    refuses(EVENT("{at_s: 1, mend: [0, 1, 2]}"),
            "folder/e.yaml:6:26: events.0.mend: two agents are expected here: [0, 1]");
    refuses(EVENT("{at_s: 1, mend: [2, 2]}"), "folder/e.yaml:6:30: events.0.mend.1: agent 2 is named twice");
    refuses(EVENT("{at_s: 1, heal: [0, 1]}"),
            "folder/e.yaml:6:26: events.0.heal: a list was written where one of a few words is expected");
    refuses(EVENT("{at_s: 1, heal: some}"), "folder/e.yaml:6:26: events.0.heal: 'some' is not one of all");
    refuses(EVENT("{at_s: 1, partition: [[0, 1], [2, 1]]}"),
            "folder/e.yaml:6:44: events.0.partition.1.1: agent 1 is named twice");
    refuses(EVENT("{at_s: 1, partition: [0, 1]}"),
            "folder/e.yaml:6:32: events.0.partition.0: a list of agents is expected here: [0, 1]");
    refuses(EVENT("{at_s: 1, partition: []}"),
            "folder/e.yaml:6:31: events.0.partition: a list of groups is expected here: [[0, 1], [2, 3]]");
    refuses(EVENT("{at_s: 1, random: {}}"),
            "folder/e.yaml:6:11: events.0.at_s: unknown key 'at_s' in events.0; known are: random");
    refuses(EVENT("{random: {}}"), "folder/e.yaml:6:19: events.0.random: nothing ever happens: crash_every_s "
                                   "or cut_every_s is expected");
    refuses(EVENT("{random: {cut_every_s: 5, down_s: 1}}"),
            "folder/e.yaml:6:44: events.0.random.down_s: nobody ever crashes: crash_every_s is not written");
    refuses(EVENT("{random: {crash_every_s: 5, cut_s: 1}}"),
            "folder/e.yaml:6:45: events.0.random.cut_s: nothing is ever cut: cut_every_s is not written");
    refuses(EVENT("{random: {crash_every_s: 5}}, {random: {cut_every_s: 1}}"),
            "folder/e.yaml:6:40: events.1: the chances of events are written twice");
    refuses("data: {set: dots, batch: 25}\nmodel: tower\noptim: {sgd: 0.1}\ntrain: {epochs: 2}\n"
            "events: [{at_s: 1, crash: 1}]\n",
            "folder/e.yaml:5:27: events.0.crash: there is no agent 1: the only one is agent 0");
}

static void an_agent_may_be_named_again_in_another_event(void **state)
{
    (void)state;
    struct experiment *e = reads(EVENT("{at_s: 1, crash: [0, 1]}, {at_s: 2, crash: [1, 0]}"), NULL);
    assert_int_equal(e->events.n, 2);
    experiment_free(e);
}

static void there_may_be_a_hundred_thousand_agents(void **state)
{
    (void)state;
    struct experiment *e = reads(FOUR "events: [{at_s: 1, crash: 99999}]\n",
                                 "agents=100000"); /* the number on the command line counts */
    assert_int_equal(e->agents, 100000);
    assert_int_equal(e->events.at[0].who.agents[0], 99999);
    experiment_free(e);
    refuses(
        "data: {set: dots, batch: 1}\nmodel: tower\noptim: {sgd: 1}\ntrain: {epochs: 2}\nagents: 100001\n",
        "folder/e.yaml:5:9: agents: 100001 is above the most allowed, 100000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_topology_is_a_graph_or_a_map),
        cmocka_unit_test(weights_are_numbered_as_the_topology_room_numbers_them),
        cmocka_unit_test(a_topology_that_cannot_be_is_refused),
        cmocka_unit_test(machines_that_cannot_be_are_refused),
        cmocka_unit_test(every_pair_has_its_wire),
        cmocka_unit_test(without_sites_one_wire_is_everywhere),
        cmocka_unit_test(a_network_that_cannot_be_is_refused),
        cmocka_unit_test(every_kind_of_event_is_taken),
        cmocka_unit_test(events_that_cannot_be_are_refused),
        cmocka_unit_test(an_agent_may_be_named_again_in_another_event),
        cmocka_unit_test(there_may_be_a_hundred_thousand_agents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
