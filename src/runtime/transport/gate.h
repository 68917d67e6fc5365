// Who may connect. Neither the library's store nor Gloo asks a connection who it is: the store
// obeys whoever reaches it and listens on all interfaces, and Gloo takes whoever comes first for
// its peer. While a gate stands, the connections that they accept and make begin with the handshake
// (handshake.h): this program's own accept(), connect() and bind() take the place of the C
// library's, so it comes before the first byte that either of them reads. A socket that would
// listen on all interfaces listens on the gate's address alone.
//
// What a stranger can still do: hold up a rank for kGreetingS a connection while ranks are
// connecting (not later), and what it likes with the packets of a network that it controls.

#pragma once

#include <string>

namespace graphpipe {

class Gate {
 public:
  static constexpr double kGreetingS = 2;

  // Of the process. `address`: of this machine, numeric. Where ranks are threads each puts one up,
  // with one token and address: the gate stands as long as any of them.
  Gate(const std::string& token, const std::string& address);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // This rank has all its connections: who comes when that is so for all ranks of the process is
  // turned away unheard.
  void close();
  // Why the last connection was turned away, or turned this process away; "" where none was.
  std::string last_refusal() const;

 private:
  bool is_closed_ = false;
};

}  // namespace graphpipe
