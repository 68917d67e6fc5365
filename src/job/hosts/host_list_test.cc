#include "job/hosts/host_list.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_fault.h"
#include "job/hosts/address.h"
#include "job/hosts/interface.h"

namespace graphpipe {
namespace {

using ::testing::ElementsAre;

TEST(NodeList, Expands) {
  const auto expand = [](const char* text) { return expand_node_list(text, ""); };
  EXPECT_THAT(expand("one"), ElementsAre("one"));
  EXPECT_THAT(expand("a,b-1.net"), ElementsAre("a", "b-1.net"));
  EXPECT_THAT(expand("node[08-11,3],gpu5"),
              ElementsAre("node08", "node09", "node10", "node11", "node3", "gpu5"));
  EXPECT_THAT(expand("r[1-2]n[1-2]x"), ElementsAre("r1n1x", "r1n2x", "r2n1x", "r2n2x"));
}

TEST(NodeList, RefusesWhatIsNone) {
  for (const char* text : {"", ",", "a,", "a[", "a]", "a[]", "a[ ]", "a[1-]", "a[2-1]", "a[x]",
                           "a[[1]]", "a[1,]b", "a b", "a[1-2", "a[-1]", "a[1-9999999999]"}) {
    EXPECT_EQ(input_fault([&] { expand_node_list(text, "LIST"); }),
              std::string("LIST: expected a list of hosts such as node[01-03,7],gpu5, found \"") +
                  text + "\"");
  }
  EXPECT_EQ(input_fault([] { expand_node_list("a[1-999]b[1-999]", "LIST"); }),
            "LIST: more than 65536 hosts");
}

TEST(Hostfile, ReadsTheFormsOfOpenMpiAndMpich) {
  EXPECT_THAT(parse_hostfile("# four\n\n a\nb slots=2 # two\nc:3\r\nb:1\n", "hosts"),
              ElementsAre(HostSlots{"a", 1}, HostSlots{"b", 3}, HostSlots{"c", 3}));
}

TEST(Hostfile, RefusesWhatItDoesNotKnow) {
  const auto refused = [](const char* text) {
    return input_fault([&] { parse_hostfile(text, "hosts"); });
  };
  EXPECT_EQ(refused("# none\n"), "hosts: names no host; give a line for each, NAME slots=N");
  EXPECT_EQ(refused("a\nb slots=0\n"),
            "hosts:2: expected NAME, NAME slots=N or NAME:N with 1 to 4096 slots, found \"b "
            "slots=0\"");
  for (const char* text : {"-oProxyCommand=x", "a slots=x", "a max_slots=2", "a:", ":2",
                           "a:1 slots=1", "a b", "a slots=1 b"}) {
    EXPECT_NE(refused(text), "") << text;
  }
}

TEST(PlaceRanks, FillsTheHostsInTheirOrder) {
  const std::vector<HostSlots> hosts = {{"a", 2}, {"b", 1}, {"c", 4}};
  EXPECT_THAT(place_ranks(hosts, 5, "hosts"), ElementsAre(0, 0, 1, 2, 2));
  EXPECT_EQ(
      input_fault([&] { place_ranks(hosts, 8, "hosts"); }),
      "hosts: the plan has 8 ranks, and the hosts have 7 slots; give them more, or more hosts");
}

TEST(Interface, LoopbackIsEverywhere) {
  EXPECT_EQ(address_of_interface("lo", ""), "127.0.0.1");
  EXPECT_EQ(input_fault([] { address_of_interface("nosuch0", "--interface"); }).substr(0, 60),
            "--interface: nosuch0 is no interface with an address; this m");
  EXPECT_EQ(resolve_host("127.0.0.1"), "127.0.0.1");
  EXPECT_TRUE(is_address_of_this_machine("127.0.0.1"));
  EXPECT_FALSE(is_address_of_this_machine("192.0.2.7"));
  EXPECT_EQ(address_towards("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(listening_address(true, "127.0.0.1", ""), "127.0.0.1");
  EXPECT_EQ(listening_address(false, "127.0.0.1", ""), "127.0.0.1");
  EXPECT_EQ(listening_address(true, "192.0.2.7", "lo"), "127.0.0.1");
  EXPECT_EQ(input_fault([] { listening_address(true, "192.0.2.7", ""); }),
            "192.0.2.7: this process is rank 0, and 192.0.2.7 is not this machine; set MASTER_ADDR "
            "to rank 0's host, or give --interface");
}

TEST(NodeList, NamesAreAsLongAsNamesMayBe) {
  const std::string name(256, 'n');
  EXPECT_NE(input_fault([&] { expand_node_list(name, "LIST"); }), "");
  std::string nested;  // a level of recursion a bracket
  for (int i = 0; i < 50'000; ++i) nested += "[1]";
  EXPECT_NE(input_fault([&] { expand_node_list(nested, "LIST"); }), "");
}

TEST(Hostfile, HasAtMostSoManyHostsAndSlots) {
  EXPECT_EQ(input_fault([] { parse_hostfile("a:4000\nb\na:97\n", "F"); }),
            "F:3: more than 4096 slots of a");
  std::string many;
  for (int i = 0; i <= 65536; ++i) many += fmt::format("h{}\n", i);
  EXPECT_EQ(input_fault([&] { parse_hostfile(many, "F"); }), "F:65537: more than 65536 hosts");
}

TEST(Address, IsAnAddressAndAPort) {
  EXPECT_EQ(parse_address("fd00::1 29500\n", "L"), std::pair(std::string("fd00::1"), 29500));
  EXPECT_EQ(input_fault([] { parse_address("29500", "L"); }),
            "L: expected ADDRESS PORT, found \"29500\"");
  EXPECT_EQ(input_fault([] { parse_address("10.0.0.1 65536", "L"); }),
            "L: expected a port from 1 to 65535, found 65536");
}

}  // namespace
}  // namespace graphpipe
