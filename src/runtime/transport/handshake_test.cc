#include "runtime/transport/handshake.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <random>
#include <string>
#include <thread>

namespace graphpipe {
namespace {

struct Pair {
  std::array<int, 2> ends{};
  Pair() { socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()); }
  ~Pair() {
    close(ends[0]);
    close(ends[1]);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
};

using Outcome = std::optional<std::string>;

std::pair<Outcome, Outcome> greet(const std::string& listener, const std::string& connector) {
  Pair pair;
  Outcome of_listener;
  Outcome of_connector;
  std::thread other([&] {
    of_listener = greet_as_listener(pair.ends[0], listener, 10);
    if (of_listener) shutdown(pair.ends[0], SHUT_RDWR);
  });
  of_connector = greet_as_connector(pair.ends[1], connector, 10);
  other.join();
  return {of_listener, of_connector};
}

TEST(Handshake, LetsInWhoKnowsTheToken) {
  for (const std::string token : {"", "secret", "another\0"}) {
    const auto [listener, connector] = greet(token, token);
    EXPECT_EQ(listener, std::nullopt);
    EXPECT_EQ(connector, std::nullopt);
  }
}

TEST(Handshake, TurnsAwayWhoDoesNot) {
  const auto [listener, connector] = greet("secret", "Secret");
  EXPECT_EQ(listener, "it does not know the job's token");
  EXPECT_EQ(connector, "it hung up: most likely this rank has another token");
}

// Whatever comes, and in whatever pieces, it is refused; the seed is fixed, so a failure repeats.
TEST(Handshake, TurnsAwayWhatIsNoHandshake) {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    Pair pair;
    std::string bytes(random() % 100, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (i % 3 == 0) bytes.insert(0, "gpipe-hs");
    ASSERT_EQ(::send(pair.ends[1], bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    shutdown(pair.ends[1], SHUT_WR);
    const bool listens = i % 2 == 0;
    const Outcome outcome = listens ? greet_as_listener(pair.ends[0], "secret", 10)
                                    : greet_as_connector(pair.ends[0], "secret", 10);
    EXPECT_NE(outcome, std::nullopt) << i;
  }
}

TEST(Handshake, DoesNotWaitForEver) {
  Pair pair;
  EXPECT_EQ(greet_as_listener(pair.ends[0], "secret", 0.01), "it said nothing in time");
  // Here the greeting has come, and no answer follows.
  EXPECT_EQ(greet_as_connector(pair.ends[1], "secret", 0.01),
            "it said nothing in time: most likely this rank has another token");
}

}  // namespace
}  // namespace graphpipe
