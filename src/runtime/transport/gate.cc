#include "runtime/transport/gate.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "runtime/transport/handshake.h"

namespace graphpipe {
namespace {

constexpr double kConnectS = 10;  // a listener greets others first, one at a time

struct GateState {
  std::mutex mutex;
  int up = 0;
  int closed = 0;  // so many of them
  std::string token;
  std::string address;
  std::string refusal;
};

GateState& state() {
  static GateState* instance = new GateState;  // connections outlive static objects
  return *instance;
}

// The token, where a gate stands and the socket is one of TCP.
std::optional<std::string> token_for(int socket, bool* closed = nullptr) {
  const std::lock_guard lock(state().mutex);
  if (state().up == 0) return std::nullopt;
  int type = 0;
  int domain = 0;
  socklen_t size = sizeof(type);
  if (getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM ||
      getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 ||
      (domain != AF_INET && domain != AF_INET6)) {
    return std::nullopt;
  }
  if (closed != nullptr) *closed = state().closed >= state().up;
  return state().token;
}

void note_refusal(const std::string& why) {
  const std::lock_guard lock(state().mutex);
  state().refusal = why;
}

// In place of a connection that was turned away: one that has ended. Callers drop it as they
// drop a peer that hangs up; some of them end the process where accept() itself fails.
int ended_connection(int refused) {
  int domain = AF_INET;
  socklen_t size = sizeof(domain);
  getsockopt(refused, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  close(refused);
  return socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

int greeted(int accepted) {
  bool closed = false;
  const auto token = accepted < 0 ? std::nullopt : token_for(accepted, &closed);
  if (!token) return accepted;
  const auto refusal = closed ? std::optional<std::string>("it came after all ranks had connected")
                              : greet_as_listener(accepted, *token, Gate::kGreetingS);
  if (!refusal) return accepted;
  note_refusal("a connection was turned away: " + *refusal);
  return ended_connection(accepted);
}

// As connect() of a socket that waits, whatever this one does.
int connect_now(int socket, const sockaddr* address, socklen_t size) {
  const auto result = static_cast<int>(syscall(SYS_connect, socket, address, size));
  if (result == 0 || errno != EINPROGRESS) return result;
  pollfd waited = {socket, POLLOUT, 0};
  if (poll(&waited, 1, static_cast<int>(kConnectS * 1e3)) <= 0) {
    errno = ETIMEDOUT;
    return -1;
  }
  int error = 0;
  socklen_t error_size = sizeof(error);
  getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &error_size);
  errno = error;
  return error == 0 ? 0 : -1;
}

int connect_greeted(int socket, const sockaddr* address, socklen_t size) {
  const auto token = token_for(socket);
  if (!token) return static_cast<int>(syscall(SYS_connect, socket, address, size));
  if (connect_now(socket, address, size) != 0) return -1;
  const auto refusal = greet_as_connector(socket, *token, kConnectS);
  if (!refusal) return 0;
  note_refusal("not let in: " + *refusal);
  errno = ECONNREFUSED;
  return -1;
}

bool is_any(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr == htonl(INADDR_ANY);
  }
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

// The gate's address, as a socket of that family takes it.
bool set_address(sockaddr_storage& storage, const std::string& text) {
  if (storage.ss_family == AF_INET) {
    return inet_pton(AF_INET, text.c_str(), &reinterpret_cast<sockaddr_in&>(storage).sin_addr) == 1;
  }
  in6_addr& address = reinterpret_cast<sockaddr_in6&>(storage).sin6_addr;
  return inet_pton(AF_INET6, text.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, ("::ffff:" + text).c_str(), &address) == 1;
}

int bind_at_gate(int socket, const sockaddr* address, socklen_t size) {
  sockaddr_storage storage = {};
  if (address == nullptr || size > sizeof(storage) || !token_for(socket) || !is_any(*address)) {
    return static_cast<int>(syscall(SYS_bind, socket, address, size));
  }
  std::memcpy(&storage, address, size);
  const std::lock_guard lock(state().mutex);
  if (!set_address(storage, state().address)) {
    errno = EADDRNOTAVAIL;
    return -1;
  }
  return static_cast<int>(syscall(SYS_bind, socket, &storage, size));
}

}  // namespace

Gate::Gate(const std::string& token, const std::string& address) {
  const std::lock_guard lock(state().mutex);
  GateState& s = state();
  GP_CHECK(s.up == 0 || (s.token == token && s.address == address), "a second gate of a process");
  if (s.up++ > 0) return;
  s.token = token;
  s.address = address;
  s.refusal.clear();
}

Gate::~Gate() {
  const std::lock_guard lock(state().mutex);
  --state().up;
  if (is_closed_) --state().closed;
}

void Gate::close() {
  const std::lock_guard lock(state().mutex);
  if (!is_closed_) ++state().closed;
  is_closed_ = true;
}

std::string Gate::last_refusal() const {
  const std::lock_guard lock(state().mutex);
  return state().refusal;
}

}  // namespace graphpipe

// In programs that link the runtime these stand before the C library's.
extern "C" {

int accept4(int socket, sockaddr* address, socklen_t* size, int flags) {
  return graphpipe::greeted(static_cast<int>(syscall(SYS_accept4, socket, address, size, flags)));
}

int accept(int socket, sockaddr* address, socklen_t* size) {
  return accept4(socket, address, size, 0);
}

int connect(int socket, const sockaddr* address, socklen_t size) {
  return graphpipe::connect_greeted(socket, address, size);
}

int bind(int socket, const sockaddr* address, socklen_t size) {
  return graphpipe::bind_at_gate(socket, address, size);
}
}
