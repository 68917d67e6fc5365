#include "job/signal_guard.h"

#include <cstddef>

namespace graphpipe {
namespace {

volatile sig_atomic_t received_signal = 0;

void note_signal(int signal) { received_signal = signal; }

}  // namespace

SignalGuard::SignalGuard() {
  received_signal = 0;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction action = {};
    action.sa_handler = kSignals[i] == SIGCHLD ? SIG_DFL : note_signal;
    sigaction(kSignals[i], nullptr, &old_[i]);
    if (kSignals[i] == SIGCHLD || old_[i].sa_handler != SIG_IGN) {
      sigaction(kSignals[i], &action, nullptr);
    }
  }
  sigset_t ours;
  sigemptyset(&ours);
  for (const int signal : kSignals) sigaddset(&ours, signal);
  pthread_sigmask(SIG_UNBLOCK, &ours, &old_mask_);
}

SignalGuard::~SignalGuard() {
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &old_[i], nullptr);
}

int SignalGuard::received() { return received_signal; }

}  // namespace graphpipe
