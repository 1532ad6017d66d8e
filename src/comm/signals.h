// SIGTERM and SIGUSR1 ask for a stop at the next micro-batch. The handler only sets a flag, so it may run in any thread
// that does not block them; the watchdog blocks all signals. SIGXFSZ is ignored.
#pragma once

namespace ogrom {

void install_stop_signals();
bool stop_signalled();
int stop_sender();                    // process id of who sent the last one
void block_signals_in_this_thread();  // all of them

}  // namespace ogrom
