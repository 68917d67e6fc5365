// oneDNN, in which the library computes convolutions, LSTMs and some activations where it may.

#pragma once

#include <string>

namespace graphpipe {

// To be called before the first operator; then and later, from any thread. Has libtorch compute
// without oneDNN where that is known to compute wrong values: version 3.7.2, as Debian 13 links
// libtorch 2.6 with, reads memory that nobody has written in convolutions of few channels, so that
// gradients are no numbers now and then (with AVX-512 losses too), and with AVX-512 LSTMs are wrong
// by more than rounding. Versions from 3 on are left out, those below are used; a oneDNN
// that is part of libtorch itself is left as it is, and so is any where GRAPHPIPE_ONEDNN=on.
void use_right_kernels();

// "2.6.0"; "3.7.2, not used"; "" where oneDNN is not a library of its own.
std::string one_dnn_text();

}  // namespace graphpipe
