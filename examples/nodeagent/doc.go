// Nodeagent is a small kubelet, of volumes alone: it keeps the volumes of the pods in a
// directory of manifests set up, as they come, change and go.
//
//	go run ./examples/nodeagent -manifests DIR -disks /mnt/disks
//
// A manifest is YAML or JSON with Pods, PersistentVolumeClaims, PersistentVolumes,
// ConfigMaps and Secrets; see package manager/manifests for what is made of it. Local
// volumes are accepted below the directories of -disks, host paths at or below those of
// -host-paths, and nowhere else.
//
// On a terminal it shows a table of what it does, and elsewhere prints a line for each
// event. Ended by a signal, even SIGKILL, it leaves the volumes as they are, and the next
// run goes on from there. What it needs for that is in the directory of -root, by default
// .nodeagent in the one with the manifests. Two agents on one root are refused. DIR may be
// a symbolic link that is replaced to change all manifests at once; -root is needed then.
//
//	go run ./examples/nodeagent -manifests DIR -once    reconciles and exits
//	go run ./examples/nodeagent -manifests DIR -status  prints what is mounted for which pod
//
// Root's volumes are mounted for the whole machine to see. An ordinary user's are in a
// user and mount namespace of the program's own, and end with it, other than what is on
// disk; -status looks into it.
//
// Without -manifests it demonstrates itself, in a namespace of its own also for root,
// with manifests and disks in a temporary directory, which are yours to edit meanwhile,
// and are gone after it has ended.
//
// The exit status is 0 if it was ended by a signal or all is as desired, 2 if the command
// line was wrong, and 1 otherwise.
package main
