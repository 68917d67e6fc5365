#include "job/hosts/interface.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <vector>

#include "base/error.h"

namespace graphpipe {
namespace {

std::string numeric(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  const int error =
      getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? text.data() : "";
}

struct InterfaceAddress {
  std::string interface;
  int family = 0;
  std::string address;
};

std::vector<InterfaceAddress> addresses() {
  ifaddrs* first = nullptr;
  std::vector<InterfaceAddress> found;
  if (getifaddrs(&first) != 0) return found;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, freeifaddrs);
  for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr) continue;
    const int family = at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    found.push_back({at->ifa_name, family, numeric(at->ifa_addr, size)});
  }
  return found;
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<addrinfo, FreeAddresses>;

AddressList look_up(const std::string& host, int flags) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  return AddressList(getaddrinfo(host.c_str(), "9", &hints, &list) == 0 ? list : nullptr);
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

}  // namespace

std::string address_of_interface(const std::string& interface, const std::string& where) {
  std::set<std::string> names;
  std::string any;
  for (const InterfaceAddress& one : addresses()) {
    names.insert(one.interface);
    if (one.interface != interface || one.address.find('%') != std::string::npos) continue;
    if (one.family == AF_INET) return one.address;
    if (any.empty()) any = one.address;
  }
  if (!any.empty()) return any;
  throw InputError(where, fmt::format("{} is no interface with an address; this machine has {}",
                                      interface, fmt::join(names, ", ")));
}

std::optional<std::string> resolve_host(const std::string& host) {
  const AddressList list = look_up(host, 0);
  // The library's store looks for an IPv4 address too where a name has several.
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    if (at->ai_family == AF_INET) return numeric(at->ai_addr, at->ai_addrlen);
  }
  if (!list) return std::nullopt;
  return numeric(list->ai_addr, list->ai_addrlen);
}

bool is_address_of_this_machine(const std::string& address) {
  if (address.starts_with("127.")) return true;
  for (const InterfaceAddress& one : addresses()) {
    if (one.address == address) return true;
  }
  return false;
}

std::optional<std::string> address_towards(const std::string& address) {
  const AddressList list = look_up(address, AI_NUMERICHOST);
  if (!list) return std::nullopt;
  const int file = socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (file < 0) return std::nullopt;
  sockaddr_storage own = {};
  socklen_t size = sizeof(own);
  std::optional<std::string> result;
  if (connect(file, list->ai_addr, list->ai_addrlen) == 0 &&
      getsockname(file, reinterpret_cast<sockaddr*>(&own), &size) == 0) {
    result = numeric(reinterpret_cast<sockaddr*>(&own), size);
  }
  close(file);
  return result;
}

std::string listening_address(bool is_rank_0, const std::string& host,
                              const std::string& interface) {
  if (!interface.empty()) return address_of_interface(interface, "--interface");
  const auto address = resolve_host(host);
  if (!address) {
    throw InputError(host,
                     "the name of rank 0's host is not known here; give its address, or "
                     "--interface");
  }
  if (!is_rank_0) {
    if (const auto own = address_towards(*address)) return *own;
    throw InputError(host, fmt::format("there is no way from here to {}", *address));
  }
  if (!is_address_of_this_machine(*address)) {
    throw InputError(host, fmt::format("this process is rank 0, and {} is not this machine; set "
                                       "MASTER_ADDR to rank 0's host, or give --interface",
                                       *address));
  }
  // Many systems have their own name stand for an address that only they can reach.
  constexpr const char* kElsewhere = "192.0.2.1";  // of no machine (RFC 5737)
  const bool by_name = host != *address && host != "localhost";
  if (is_loopback(*address) && by_name) return address_towards(kElsewhere).value_or(*address);
  return *address;
}

}  // namespace graphpipe
