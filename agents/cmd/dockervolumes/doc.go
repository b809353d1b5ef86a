// Dockervolumes is a volume driver of Docker for NFS, or for directories of its machine.
//
//	dockervolumes                                          shares of NFS servers
//	dockervolumes -server nfs.example.com -path /export    and volumes in an export
//	dockervolumes -dir /srv/volumes                        volumes in a directory
//
// It runs as root on the machine of dockerd. Then:
//
//	docker volume create -d volumekit -o size=10Gi -o mode=0750 -o uid=1000 data
//	docker volume create -d volumekit -o share=nfs.example.com:/media -o ro=true -o o=nfsvers=4.1 media
//	docker run -v data:/data -v media:/media ...
//
// With -server each volume is a directory in the export, which the program mounts for a creation or a removal alone. With
// -dir it is a directory in there; the size is a limit if the file system has project quotas, as ext4 and xfs can have, and
// the option share shows a directory below -shares. Packages docker, nfs and local describe the options. With
// -o onDelete=retain the directory of a volume stays in the export when the volume is removed.
//
// -scope global makes a name denote the same storage for all machines with the same -server, -path and -name. No machine sees
// the containers of the others: the directory of a removed volume stays in the export, except with -o onDelete=delete. -name
// and the kind of the volumes must not change while volumes exist. -state has the records and the mounts: it must be on a local
// disk, and outlive the program and the machine's restarts. Ended by a signal, even SIGKILL, the program continues in the next
// run; containers keep their volumes meanwhile.
//
// # As a service
//
// dockervolumes.service is a unit of systemd, for a program in /usr/local/sbin and flags in /etc/default/dockervolumes. It is
// started before Docker, whose containers with a restart policy need their volumes, and ended after it. Docker waits for a
// driver that is not there yet.
//
//	CGO_ENABLED=0 go build -o /usr/local/sbin/ ./agents/cmd/dockervolumes
//	cp agents/cmd/dockervolumes/dockervolumes.service /etc/systemd/system/
//	echo 'FLAGS=-server=nfs.example.com -path=/export' >/etc/default/dockervolumes
//	systemctl enable --now dockervolumes
//
// # As a managed plugin
//
// config.json describes a managed plugin, which dockerd itself runs. Its mounts and records are in /state, which the daemon
// keeps until "docker plugin rm" and shows to its containers.
//
//	mkdir -p plugin/rootfs
//	CGO_ENABLED=0 go build -o plugin/rootfs/ ./agents/cmd/dockervolumes
//	cp agents/cmd/dockervolumes/config.json plugin/
//	docker plugin create volumekit plugin
//	docker plugin set volumekit args="-server=nfs.example.com -path=/export"
//	docker plugin enable volumekit
//
// If a wrong flag made "docker plugin enable" fail, it may fail again with right ones, as the daemon keeps the container:
// "docker plugin rm -f" and the steps from "docker plugin create" on help.
//
// It needs CAP_SYS_ADMIN to mount, the network of the machine to reach servers from privileged ports, and the processes of the
// machine with CAP_SYS_PTRACE to see which of them has a volume. Directories of the machine are for the service: the plugin
// does not see them.
//
// The exit status is 0 if a signal ended the program, 2 if the command line is wrong, and 1 otherwise.
package main
