module github.com/wfhost/wfhost/guests/go

go 1.24
