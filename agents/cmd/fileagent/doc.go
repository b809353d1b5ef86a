// Fileagent is a small kubelet for volumes alone: it sets up the volumes of the pods in a
// directory of manifests, and follows changes of the manifests.
//
//	go run ./agents/cmd/fileagent -manifests DIR -disks /mnt/disks
//
// A manifest is YAML or JSON with Pods, PersistentVolumeClaims, PersistentVolumes,
// ConfigMaps and Secrets; see package manager/manifests for their interpretation. Local
// volumes are accepted below the directories of -disks, host paths at or below those of
// -host-paths, and nowhere else; -links, -device-links and -devices permit symbolic links
// and devices. Tokens of service accounts are made up, and say so, unless -token-file has
// one. -node and -node-labels are the node's name and labels, for the volumes' node affinity.
//
// On a terminal it shows a table, and elsewhere prints a line for each event. Ended by a
// signal, even SIGKILL, it leaves the volumes as they are, and the next run continues. Its
// records are in the directory of -root, by default .fileagent in the directory of the
// manifests. Two agents on one root are refused. DIR may be a symbolic link that is replaced
// to change all manifests at once; -root is needed then.
//
//	go run ./agents/cmd/fileagent -manifests DIR -once    reconciles and exits
//	go run ./agents/cmd/fileagent -manifests DIR -status  prints the mounts of each pod
//
// Root's volumes are mounted for the whole machine. An ordinary user's are in a user and
// mount namespace of the program's own, and end with it, except for the files on disk;
// -status reads that namespace.
//
// Without -manifests it demonstrates itself, also for root in a namespace of its own, with
// manifests and disks in a temporary directory. The manifests can be edited meanwhile, and
// are removed at the end.
//
// The exit status is 0 if a signal ended it or the desired state is reached, 2 if the
// command line is wrong, and 1 otherwise. Output that cannot be written, as to a full disk
// or a closed pipe, is an error, and ends the program as a signal does.
package main
