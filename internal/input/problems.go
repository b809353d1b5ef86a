package input

// longestValid exceeds the longest name that a rule of Kubernetes permits: a label's key of 317 bytes.
const longestValid = 1 << 10

// Problems applies a rule of Kubernetes, such as validation.IsDNS1123Subdomain, to a name, and returns its complaints.
// The rule must limit the length. It gets the first bytes of a long name, which is too long for it as well: on megabytes
// the pattern of a rule takes 0.1 seconds each time.
func Problems(rule func(string) []string, name string) []string {
	return rule(name[:min(len(name), longestValid)])
}
