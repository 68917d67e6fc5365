#include "job/test_fault.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "job/fault.h"

namespace graphpipe {
namespace {

constexpr const char* kVariable = "GP_TEST_FAULT";
constexpr std::int64_t kSteadyIteration = 2;

bool is_number(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

template <std::size_t n>
bool is_one_of(const std::string& text, const std::array<const char*, n>& known) {
  return std::ranges::find(known, text) != known.end();
}

// A port that was free a moment ago, and that nobody listens at.
int closed_port() {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  bind(file, reinterpret_cast<sockaddr*>(&address), size);
  getsockname(file, reinterpret_cast<sockaddr*>(&address), &size);
  close(file);
  return ntohs(address.sin_port);
}

void note_time() {
  const char* path = std::getenv("GP_TEST_FAULT_LOG");
  if (path != nullptr) write_file(path, fmt::format("{}\n", monotonic_s()));
}

}  // namespace

std::optional<TestFault> TestFault::of_rank(int rank, std::function<void()> mute) {
  const char* text = std::getenv(kVariable);
  if (text == nullptr) return std::nullopt;
  const std::vector<std::string> parts = split_text(text, ':');
  const bool known =
      parts.size() == 3 &&
      (is_number(parts[1]) || is_one_of<7>(parts[1], {"start", "connect", "warm-up", "steady",
                                                      "reduction", "evaluation", "checkpoint"})) &&
      is_one_of<7>(parts[2], {"throw", "exit", "kill", "stop", "memory", "mute", "port"});
  if (!known) throw InputError(kVariable, "expected RANK:WHERE:WHAT");
  if (parse_integer(parts[0], kVariable) != rank) return std::nullopt;
  TestFault fault;
  fault.where_ = parts[1];
  fault.what_ = parts[2];
  fault.mute_ = std::move(mute);
  return fault;
}

void TestFault::strike_at(std::string_view place) const {
  if (place == where_ && what_ != "port") strike();
}

void TestFault::strike_in(const Action& action, std::int64_t iteration,
                          std::string_view phase) const {
  if (phase == "evaluate") return strike_at("evaluation");
  const bool reduces =
      action.kind == ActionKind::kStartReduce || action.kind == ActionKind::kWaitReduce;
  if (reduces) strike_at("reduction");
  if (action.kind == ActionKind::kForward) strike_at("warm-up");
  if (action.kind != ActionKind::kBackward) return;
  if (iteration == kSteadyIteration) strike_at("steady");
  strike_at(std::to_string(iteration));
}

bool TestFault::publishes_closed_port(const std::string& folder) const {
  if (what_ != "port") return false;
  note_time();
  write_file(folder + "/port", std::to_string(closed_port()));
  return true;
}

void TestFault::strike() const {
  note_time();
  if (what_ == "exit") _exit(0);
  if (what_ == "kill") raise(SIGKILL);
  if (what_ == "stop") raise(SIGSTOP);
  if (what_ == "memory") {
    constexpr std::size_t kMoreThanThereIs = std::size_t{1} << 62;
    void* volatile memory = ::operator new(kMoreThanThereIs);
    ::operator delete(memory);
  }
  if (what_ == "mute") {
    mute_();
    while (true) pause();
  }
  throw std::runtime_error("a fault for a test");
}

}  // namespace graphpipe
