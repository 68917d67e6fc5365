#include "runtime/transport/handshake.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "base/sha256.h"
#include "runtime/clock.h"

namespace graphpipe {
namespace {

constexpr std::string_view kMagic = "gpipe-hs";
constexpr std::size_t kNonceBytes = 16;

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t at = 0; at < count;) {
    const ssize_t n = getrandom(bytes.data() + at, count - at, 0);
    if (n > 0) at += static_cast<std::size_t>(n);
  }
  return bytes;
}

// Fixed numbers of bytes, before a deadline.
class Exchange {
 public:
  Exchange(int socket, double timeout_s) : socket_(socket), deadline_s_(wall_s() + timeout_s) {}

  bool write(std::string_view bytes) {
    return repeat(POLLOUT, bytes.size(), [&](std::size_t at) {
      return ::send(socket_, bytes.data() + at, bytes.size() - at, MSG_DONTWAIT | MSG_NOSIGNAL);
    });
  }
  bool read(std::string& bytes, std::size_t count) {
    bytes.assign(count, '\0');
    return repeat(POLLIN, count, [&](std::size_t at) {
      return ::recv(socket_, bytes.data() + at, count - at, MSG_DONTWAIT);
    });
  }
  const std::string& failure() const { return failure_; }

 private:
  template <typename Move>
  bool repeat(short event, std::size_t count, const Move& move) {
    for (std::size_t at = 0; at < count;) {
      const double left_s = deadline_s_ - wall_s();
      pollfd waited = {socket_, event, 0};
      const int left_ms = std::max(0, static_cast<int>(left_s * 1e3));
      if (left_s <= 0 || poll(&waited, 1, left_ms) == 0) return fail("it said nothing in time");
      const ssize_t n = move(at);
      if (n > 0) {
        at += static_cast<std::size_t>(n);
      } else if (n == 0) {
        return fail("it hung up");
      } else if (errno != EAGAIN && errno != EINTR) {
        return fail(std::strerror(errno));
      }
    }
    return true;
  }
  bool fail(const char* why) {
    failure_ = why;
    return false;
  }

  int socket_;
  double deadline_s_;
  std::string failure_;
};

std::string proof(const std::string& token, const char* role, const std::string& nonces) {
  const Sha256 digest = hmac_sha256(token, role + nonces);
  return {digest.begin(), digest.end()};
}

bool is_proof(const std::string& bytes, const std::string& expected) {
  Sha256 a{};
  Sha256 b{};
  std::copy_n(bytes.begin(), a.size(), a.begin());
  std::copy_n(expected.begin(), b.size(), b.begin());
  return same_digest(a, b);
}

}  // namespace

std::optional<std::string> greet_as_listener(int socket, const std::string& token,
                                             double timeout_s) {
  Exchange exchange(socket, timeout_s);
  const std::string ours = random_bytes(kNonceBytes);
  std::string answer;
  if (!exchange.write(std::string(kMagic) + ours) ||
      !exchange.read(answer, kNonceBytes + sizeof(Sha256))) {
    return exchange.failure();
  }
  const std::string nonces = ours + answer.substr(0, kNonceBytes);
  if (!is_proof(answer.substr(kNonceBytes), proof(token, "connector", nonces))) {
    return "it does not know the job's token";
  }
  if (!exchange.write(proof(token, "listener", nonces))) return exchange.failure();
  return std::nullopt;
}

std::optional<std::string> greet_as_connector(int socket, const std::string& token,
                                              double timeout_s) {
  Exchange exchange(socket, timeout_s);
  std::string greeting;
  if (!exchange.read(greeting, kMagic.size() + kNonceBytes)) return exchange.failure();
  if (!greeting.starts_with(kMagic)) return "what listens there is no rank of graphpipe's";
  const std::string ours = random_bytes(kNonceBytes);
  const std::string nonces = greeting.substr(kMagic.size()) + ours;
  std::string answer;
  if (!exchange.write(ours + proof(token, "connector", nonces))) return exchange.failure();
  if (!exchange.read(answer, sizeof(Sha256))) {
    return exchange.failure() + ": most likely this rank has another token";
  }
  if (!is_proof(answer, proof(token, "listener", nonces)))
    return "it does not know the job's token";
  return std::nullopt;
}

}  // namespace graphpipe
