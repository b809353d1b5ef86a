package main

import (
	"errors"
	"flag"
	"strconv"
	"strings"
)

// An otherFlag is a flag of the five programs that selects nothing here.
type otherFlag struct {
	names  string // of flags with one reason, with spaces
	isBool bool
	// same is the value that selects the behaviour of this program. The program accepts it silently.
	same string
	// refused: another value is an error, because the program contradicts it. Otherwise the program accepts the value
	// with a warning.
	refused bool
	reason  string
}

// otherFlags are all of them.
var otherFlags = []otherFlag{
	// Refused.
	{names: "node-deployment", isBool: true, same: "false", refused: true, reason: "one run serves all nodes: the runs on several nodes would all create the volume of a claim"},
	{names: "metrics-path", same: "/metrics", refused: true, reason: "nothing would be at another path"},

	// Without effect: the API server.
	{names: "kube-api-qps kube-api-burst kube-api-capacity-qps kube-api-capacity-burst", reason: "the API server limits the calls of its clients"},
	// The companions.
	{names: "capacity-threads", reason: "the capacities are queried one after the other"},
	{names: "cloning-protection-threads", reason: "the source of a copy has no finalizer"},
	{names: "snapshot-orphan-sweep-interval", reason: "no volume is made from a snapshot, so that snapshots have no finalizers"},
	{names: "prevent-volume-mode-conversion", isBool: true, same: "true", reason: "a copy always has the volume mode of its source"},
	{names: "node-deployment-immediate-binding", isBool: true, same: "true", reason: "it belongs to --node-deployment"},
	{names: "node-deployment-base-delay node-deployment-max-delay", reason: "it belongs to --node-deployment"},
	{names: "handle-volume-inuse-error", isBool: true, same: "false", reason: "a volume in use is tried again with the pauses of other failures, and pods are not watched"},
	{names: "max-entries", reason: "a list of volumes has pages only if its answer is too large without them"},
	{names: "connection-timeout", reason: "node-driver-registrar ignores it as well"},
	// The process and its log.
	{names: "enable-pprof", isBool: true, same: "false", reason: "no profiles are served"},
	{names: "automaxprocs", isBool: true, same: "true", reason: "the Go runtime follows the CPU limit of the container"},
	{names: "max-grpc-log-length", reason: "the answers of the driver are not logged"},
	{names: "v vmodule log_backtrace_at", reason: "the log has one verbosity"},
	{names: "log-flush-frequency log-text-info-buffer-size log-json-info-buffer-size", reason: "the log has no buffer"},
	{names: "log-text-split-stream log-json-split-stream", isBool: true, same: "false", reason: "the log is written to standard error"},
	{names: "logtostderr", isBool: true, same: "true", reason: "the log is written to standard error"},
	{names: "alsologtostderr one_output legacy_stderr_threshold_behavior", isBool: true, reason: "the log is written to standard error"},
	{names: "log_dir log_file log_file_max_size stderrthreshold alsologtostderrthreshold", reason: "the log is written to standard error"},
	{names: "add_dir_header skip_headers skip_log_headers", isBool: true, reason: "the lines of the log have no such headers"},
}

// addOtherFlags adds all of them.
func addOtherFlags(set *flag.FlagSet) {
	for _, f := range otherFlags {
		for name := range strings.FieldsSeq(f.names) {
			set.Var(&otherValue{otherFlag: f}, name, f.usage())
		}
	}
}

// usage returns the help of a flag.
func (f otherFlag) usage() string {
	if f.refused {
		return "must be " + f.same + ": " + f.reason
	}
	return "without effect: " + f.reason
}

// An otherValue is the value of an otherFlag on a command line.
type otherValue struct {
	otherFlag
	text string
}

// String returns the value.
func (v *otherValue) String() string { return v.text }

// IsBoolFlag reports whether the flag needs no value.
func (v *otherValue) IsBoolFlag() bool { return v.isBool }

// Set sets the value.
func (v *otherValue) Set(text string) error {
	if v.isBool {
		on, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("must be true or false")
		}
		text = strconv.FormatBool(on)
	}
	if v.text = text; v.refused && text != v.same {
		return errors.New(v.usage())
	}
	return nil
}

// A warning is a flag of the command line without effect.
type warning struct{ flag, reason string }

// warningsOf returns the flags of a parsed command line that have no effect.
func warningsOf(set *flag.FlagSet) (warnings []warning) {
	set.Visit(func(f *flag.Flag) {
		if v, ok := f.Value.(*otherValue); ok && v.text != v.same {
			warnings = append(warnings, warning{"--" + f.Name, v.reason})
		}
	})
	return warnings
}
