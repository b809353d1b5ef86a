// Package processgroup runs a program in a process group of its own, which ends with the context of the run.
//
// The group is that of setpgid(2): a daemon that calls setsid(2) leaves it. With this process only the program itself
// ends, by PR_SET_PDEATHSIG (prctl(2)), and not the rest of its group.
package processgroup
