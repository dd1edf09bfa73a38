// Allows component.go to declare main.main without a body.
