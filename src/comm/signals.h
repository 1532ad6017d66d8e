// SIGTERM, SIGINT, SIGHUP (unless it was ignored at start, as under nohup), SIGUSR1 and SIGUSR2 ask for a stop at the
// next micro-batch. The handler only sets a flag, so it may run in any thread that does not block them; the watchdog
// blocks all signals. A second SIGINT, at least 0.2 s after the first, ends the process at once with a line that says
// so. SIGXFSZ and SIGPIPE are ignored: the write that raises them fails instead.
#pragma once

namespace ogrom {

void install_stop_signals();
void end_on_stop_signals();  // they end the process again: for a command that has nothing to save
bool stop_signalled();
const char* stop_signal_name();       // name of the last one; "" before any
int stop_sender();                    // process id of who sent the last one
void block_signals_in_this_thread();  // all but faults of the thread itself (SIGBUS, SIGSEGV ...)

}  // namespace ogrom
