// What both ends of a connection say before anything else: that they know the job's token.
//
//   listener  -> connector   8 bytes "gpipe-hs", 16 random bytes a
//   connector -> listener    16 random bytes b, HMAC-SHA256(token, "connector" a b)
//   listener  -> connector   HMAC-SHA256(token, "listener" a b)
//
// All lengths are fixed, and nothing else that comes over the connection is looked at before the
// digest is right. The token itself never goes over the wire. What follows is neither encrypted
// nor signed: whoever can change packets on the way can change them.

#pragma once

#include <optional>
#include <string>

namespace graphpipe {

// On a connected socket, blocking or not. The reason why it failed; none: the other end knows the
// token. Waits at most `timeout_s` altogether.
std::optional<std::string> greet_as_listener(int socket, const std::string& token,
                                             double timeout_s);
std::optional<std::string> greet_as_connector(int socket, const std::string& token,
                                              double timeout_s);

}  // namespace graphpipe
