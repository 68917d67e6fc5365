#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "fuzz/targets.h"
#include "job/hosts/address.h"
#include "runtime/message.h"
#include "runtime/transport/handshake.h"

namespace graphpipe::fuzz {
namespace {

constexpr std::size_t kMostBytes = 4096;  // a socket takes them at once
constexpr double kTimeoutS = 5;

using Greet = std::optional<std::string> (*)(int, const std::string&, double);

// A stranger says `input`, whatever it hears, and hangs up. The nonces are random, so no input can
// hold the proof.
void expect_refused(Greet greet, std::string_view input) {
  int ends[2];
  GP_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "no sockets");
  input = input.substr(0, kMostBytes);
  const ssize_t sent = send(ends[0], input.data(), input.size(), MSG_NOSIGNAL);
  shutdown(ends[0], SHUT_WR);
  const auto refusal = greet(ends[1], "the job's token", kTimeoutS);
  close(ends[0]);
  close(ends[1]);
  GP_CHECK(sent == static_cast<ssize_t>(input.size()), "{} bytes sent", sent);
  GP_CHECK(refusal && !refusal->empty(), "a stranger was let in");
}

}  // namespace

void listener(std::string_view input) { expect_refused(greet_as_listener, input); }

void connector(std::string_view input) { expect_refused(greet_as_connector, input); }

// A header and sample ids: equal to those expected, or a fault that names the difference.
void message(std::string_view input) {
  MessageHeader expected;
  expected.magic = kMessageMagic;
  expected.hi = 4;
  expected.bytes = 1024;
  MessageHeader got = expected;
  std::memcpy(static_cast<void*>(&got), input.data(), std::min(input.size(), sizeof got));
  std::memset(static_cast<void*>(got.reserved), 0, sizeof got.reserved);  // not looked at
  const auto fault = header_fault(expected, got);
  GP_CHECK(fault.has_value() != (got == expected), "a fault and no difference, or the contrary");
  input.remove_prefix(std::min(input.size(), sizeof got));
  const std::vector<std::int64_t> ids(input.size() / sizeof(std::int64_t), 7);
  ids_fault(ids, reinterpret_cast<const std::byte*>(input.data()), 0);
}

void address(std::string_view input) {
  const auto [host, port] = parse_address(input, "a rank's line");
  GP_CHECK(!host.empty() && port >= 1 && port <= 65535, "{} {}", host, port);
}

}  // namespace graphpipe::fuzz
